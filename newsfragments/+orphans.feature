The objects of a deleted project go a week later; `[object_store] orphans_kept` says when, or never.
