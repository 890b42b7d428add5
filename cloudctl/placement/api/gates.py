"""Microversions at which this API acts differently. What merely looks different has its span where it is declared."""

from __future__ import annotations

from cloudctl.rest.versions import since

DICT_ALLOCATIONS = since(1, 12, "allocations are written by provider, as they are read")
TIMES = since(1, 15, "answers say when they were last modified, and that they are not to be kept")
CLEARING = since(1, 5, "all inventories of a provider are deleted at once; before that the method is refused")
AGGREGATE_GENERATIONS = since(1, 19, "the aggregates of a provider are set for one generation of it")
SHOWN_WHEN_MADE = since(1, 20, "a provider is shown when it is made")
FORBIDDEN_TRAITS = since(1, 22, "`required` takes traits that must not be there, with a `!`")
MANY_MEMBER_OF = since(1, 24, "`member_of` may be repeated")
GRANULAR = since(1, 25, "candidates are asked for in groups with numbers")
ALL_RESERVED = since(1, 26, "all of an inventory may be reserved")
EVERY_CLASS = since(1, 27, "summaries of candidates show every resource class")
CONSUMER_GENERATIONS = since(1, 28, "allocations are written for one generation of their consumer")
NESTED = since(1, 29, "candidates come from whole trees of providers")
FORBIDDEN_AGGREGATES = since(1, 32, "`member_of` takes aggregates that must not be there, with a `!`")
NAMED_GROUPS = since(1, 33, "groups of candidates may have any name")
MAPPINGS = since(1, 34, "candidates tell which group comes from which provider")
MOVING = since(1, 37, "a provider may get another parent, or none")
CONSUMER_TYPES = since(1, 38, "consumers have a type")
ANY_TRAITS = since(1, 39, "`required` may be repeated, and takes a choice of traits with `in:`")
IDEMPOTENT_CLASSES = since(1, 7, "a resource class is made by PUT")
OWNERS = since(1, 8, "allocations name the project and the user")
OWNERS_SHOWN = since(1, 12, "allocations of a consumer show the project and the user")
