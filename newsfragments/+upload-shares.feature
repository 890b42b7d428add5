One project has at most `[image] upload_share` bytes of uploads under way, half of the budget unless said otherwise. An
upload that does not say its length is held against the limits of its project as it flows, and counts as one from its
beginning.
