`os-reimage` fills a volume with an image.
