"""The experiment's TOML file, checked, and what each step's result depends on."""
