A project has a share of the consoles that are open at once: `console_share` in `[compute]`.
