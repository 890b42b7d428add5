"""`twist cloudctl`. Names the module by a string, so that nothing is imported until it is chosen."""

from twisted.application.service import ServiceMaker

cloudctl = ServiceMaker("cloudctl", "cloudctl.tap", "An OpenStack-compatible cloud in one process", "cloudctl")
