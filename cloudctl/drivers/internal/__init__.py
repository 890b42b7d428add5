"""The bus of a cloud that has none."""
