Uploads take a third less of the processor.
