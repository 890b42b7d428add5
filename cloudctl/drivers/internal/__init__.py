"""The bus of a cloud without a message bus."""
