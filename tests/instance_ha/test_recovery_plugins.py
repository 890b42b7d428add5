"""A task of somebody else's is a part of a recovery once a plugin names it and the configuration lists it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from twisted import plugins

from cloudctl.errors import ConfigError
from cloudctl.testing.cloud import MemoryCloud
from tests.instance_ha.asking import Ha

PLUGIN = """
from cloudctl.instance_ha.recovery import RecoveryTask
page = RecoveryTask("page_operator", "PageOperatorTask", "paging_of_a_stranger:page")
named_like_ours = RecoveryTask("disable_compute_node", "TheirTask", "paging_of_a_stranger:page")
"""
MODULE = """
from cloudctl.tasks import Wait
pages = []
async def page(recovery):
    pages.append(recovery.notification.hostname)
    if len(pages) < 2:
        return Wait(1.0)
    await recovery.tell("the operator is awake", 0.5)
"""
LISTED = {"instance_ha": {"process_tasks": ["page_operator", "disable_compute_node", "confirm_compute_node_disabled"]}}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "paging_plugin.py").write_text(PLUGIN)
    (tmp_path / "paging_of_a_stranger.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "__path__", [*plugins.__path__, str(tmp_path / "plugins")])
    for name in ("twisted.plugins.paging_plugin", "paging_of_a_stranger"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("installed")
def test_it_is_done_in_its_place_and_says_how_far_it_is() -> None:
    cloud = MemoryCloud(LISTED)
    try:
        ha = Ha(cloud.client("admin"))
        ha.host(ha.segment(), "fake-1")
        uuid = ha.reported("fake-1", "COMPUTE_PROCESS", event="STOPPED")
        cloud.settle()
        found = ha.notification(uuid)
        details = found["recovery_workflow_details"]
        assert found["status"] == "finished"
        assert details[0]["name"] == "PageOperatorTask"
        assert "TheirTask" not in [each["name"] for each in details]
        assert {each["state"] for each in details} == {"SUCCESS"}
        assert "the operator is awake" in [line["message"] for line in details[0]["progress_details"]]
    finally:
        cloud.close()


def test_without_the_plugin_the_cloud_says_which_tasks_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'page_operator' is unknown; known tasks: .*fence_host"):
        MemoryCloud(LISTED)
