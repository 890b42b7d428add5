"""What the image service stores."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, Integer, String, Text

from cloudctl.db.columns import Field, column, flag, identifier, json, optional_text, text, time
from cloudctl.db.records import Record


class Image(Record, table="images"):
    id: Field[str] = identifier(primary_key=True)
    owner: Field[str | None] = optional_text()  # a project id; None: of no project
    name: Field[str | None] = optional_text()
    status: Field[str] = text(32)
    visibility: Field[str] = text(16)
    protected: Field[bool] = flag(False)
    os_hidden: Field[bool] = flag(False)
    container_format: Field[str | None] = optional_text(16)
    disk_format: Field[str | None] = optional_text(16)
    size: Field[int | None] = column(BigInteger)
    virtual_size: Field[int | None] = column(BigInteger)
    min_disk: Field[int] = column(Integer, default=0)  # GiB
    min_ram: Field[int] = column(Integer, default=0)  # MiB
    checksum: Field[str | None] = optional_text(32)  # MD5, hex
    os_hash_algo: Field[str | None] = optional_text(16)
    os_hash_value: Field[str | None] = optional_text(128)
    # The upload that is under way, which is also the name of its file; None if there is none.
    upload_id: Field[str | None] = optional_text(64)
    staged_size: Field[int | None] = column(BigInteger)  # bytes that are being saved, or staged for an import
    stores: Field[list[str]] = json(list)  # ids of those that have the data, in their order
    # Where its data in the store "web" was fetched from.
    address: Field[str | None] = column(Text)
    # Addresses that its data is said to be at, perhaps not fetched yet: {"url", "metadata"}, see `located`.
    locations: Field[list[dict[str, Any]]] = json(list)
    # Comma-separated ids: the stores that an import or a copy has yet to reach, and those where the last one failed.
    # None: there was none.
    importing_to: Field[str | None] = column(Text)
    failed_import: Field[str | None] = column(Text)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


# A page of a project's, of the public, or of all images, without reading the others.
Index("ix_images_owner", Image.owner, Image.created_at, Image.id)
Index("ix_images_visibility", Image.visibility, Image.created_at, Image.id)
Index("ix_images_created", Image.created_at, Image.id)
Index("ix_images_status", Image.status)


class DeletedImage(Record, table="deleted_images"):
    """Ids of images that are gone; they are never used again."""

    id: Field[str] = identifier(primary_key=True)


class ImageProperty(Record, table="image_properties"):
    image_id: Field[str] = identifier(primary_key=True)
    name: Field[str] = column(String(255), primary_key=True)
    value: Field[str] = column(Text)


class ImageTag(Record, table="image_tags"):
    image_id: Field[str] = identifier(primary_key=True)
    tag: Field[str] = column(String(255), primary_key=True)


Index("ix_image_tags_tag", ImageTag.tag)


class ImageMember(Record, table="image_members"):
    image_id: Field[str] = identifier(primary_key=True)
    member_id: Field[str] = column(String(255), primary_key=True)
    status: Field[str] = text(16)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


Index("ix_image_members_member", ImageMember.member_id, ImageMember.status)


class CachedImage(Record, table="cached_images"):
    """An image that has a copy in the cache, or is to have one."""

    image_id: Field[str] = identifier(primary_key=True)
    size: Field[int] = column(BigInteger)
    hits: Field[int] = column(Integer, default=0)
    queued_at: Field[datetime] = time()
    cached_at: Field[datetime | None] = time()  # None: it waits for its copy
    read_at: Field[datetime | None] = time()


class ImageTask(Record, table="image_tasks"):
    """Imports as the API shows them; the work itself is a task of the engine."""

    id: Field[str] = identifier(primary_key=True)
    type: Field[str] = text(32)
    status: Field[str] = text(16)
    owner: Field[str | None] = optional_text()
    image_id: Field[str | None] = optional_text(64)
    request_id: Field[str] = text(64)
    user_id: Field[str] = text(64)
    input: Field[dict[str, Any]] = json(dict)
    result: Field[str | None] = column(Text)  # the id of the resulting image
    message: Field[str] = column(Text, default="")
    expires_at: Field[datetime | None] = time()  # None while it is open
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


Index("ix_image_tasks_image", ImageTask.image_id, ImageTask.created_at)
Index("ix_image_tasks_created", ImageTask.created_at, ImageTask.id)
Index("ix_image_tasks_expires", ImageTask.expires_at)


class Namespace(Record, table="metadef_namespaces"):
    """A namespace of metadata definitions: what keys mean, for programs that offer them to users."""

    id: Field[str] = identifier(primary_key=True)
    namespace: Field[str] = text(80, unique=True)  # its name, among all projects
    owner: Field[str | None] = optional_text()
    display_name: Field[str | None] = optional_text(80)
    description: Field[str | None] = optional_text(500)
    visibility: Field[str] = text(16)  # public, private
    protected: Field[bool] = flag(False)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


Index("ix_metadef_namespaces_owner", Namespace.owner)


class ResourceType(Record, table="metadef_resource_types"):
    """What definitions may be for, by the names of Heat's resources: OS::Glance::Image."""

    name: Field[str] = column(String(80), primary_key=True)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


class Definition(Record):
    """The columns common to everything in a namespace."""

    namespace_id: Field[str] = identifier(primary_key=True)
    name: Field[str] = column(String(80), primary_key=True)
    created_at: Field[datetime] = time()
    updated_at: Field[datetime] = time()


class Association(Definition, table="metadef_associations"):
    """The namespace is for resources of the type `name`; on these its properties' names begin with `prefix`."""

    prefix: Field[str | None] = optional_text(80)
    properties_target: Field[str | None] = optional_text(80)


Index("ix_metadef_associations_name", Association.name)


class PropertyDefinition(Definition, table="metadef_properties"):
    definition: Field[dict[str, Any]] = json(dict)  # JSON schema


class ObjectDefinition(Definition, table="metadef_objects"):
    """Properties that go together."""

    description: Field[str | None] = column(Text)
    required: Field[list[str]] = json(list)
    properties: Field[dict[str, Any]] = json(dict)


class TagDefinition(Definition, table="metadef_tags"):
    pass
