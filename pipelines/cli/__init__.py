"""The `recsys-attn` command."""
