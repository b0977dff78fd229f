"""What every folder uses: errors, progress, atomic files, the base of TOML tables."""
