"""The tree of the identity API."""

from __future__ import annotations

from cloudctl.db import Database
from cloudctl.identity.api.application_credentials import AccessRules, ApplicationCredentials
from cloudctl.identity.api.assignments import RoleAssignments
from cloudctl.identity.api.credentials import Credentials, Ec2Credentials
from cloudctl.identity.api.domain_config import DomainConfig
from cloudctl.identity.api.domains import Domains
from cloudctl.identity.api.endpoint_filters import ENDPOINT_GROUPS, GroupedEndpoints, ProjectEndpoints
from cloudctl.identity.api.endpoint_policies import EndpointPolicies
from cloudctl.identity.api.federation import IDENTITY_PROVIDERS, MAPPINGS, SERVICE_PROVIDERS, Protocols
from cloudctl.identity.api.grants import Grants
from cloudctl.identity.api.groups import GROUPS, Members
from cloudctl.identity.api.limits import Limits, RegisteredLimits
from cloudctl.identity.api.oauth import AccessTokens, Consumers, OAuthTokens
from cloudctl.identity.api.policies import POLICIES
from cloudctl.identity.api.project_tags import ProjectTags
from cloudctl.identity.api.projects import Projects
from cloudctl.identity.api.revocations import Revocations
from cloudctl.identity.api.roles import ROLES, ImpliedRoles
from cloudctl.identity.api.root import pipeline
from cloudctl.identity.api.scopes import AuthScopes
from cloudctl.identity.api.services import REGIONS, SERVICES, NamedRegions, endpoints
from cloudctl.identity.api.signed import SignedTokens
from cloudctl.identity.api.tokens import AuthTokens
from cloudctl.identity.api.trusts import Trusts
from cloudctl.identity.api.users import Users
from cloudctl.identity.api.versions import Version, VersionList
from cloudctl.identity.catalog import INSTANCE_HA
from cloudctl.identity.catalogs import Catalogs
from cloudctl.identity.login import Logins
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.payload import Keys
from cloudctl.identity.service_providers import ServiceProviders
from cloudctl.identity.tokens import Tokens
from cloudctl.rest.app import ApiApp
from cloudctl.rest.declared import Resource
from cloudctl.rest.pipeline import Http


def build(
    http: Http,
    db: Database,
    tokens: Tokens,
    hasher: Hasher,
    credential_keys: Keys,
    options: IdentityOptions,
    instance_ha_url: str = INSTANCE_HA,
) -> ApiApp:
    """The tree under `/identity`.

    `credential_keys` seal what is stored as credentials. `instance_ha_url`: the template in the catalog, see
    `catalog.instance_ha_url`.
    """
    logins = Logins(db, tokens, hasher, options, credential_keys)
    catalogs = Catalogs(db)
    users = Users(db, logins, hasher, options.passwords, GROUPS)
    of_endpoints = endpoints(instance_ha_url)
    regions = Resource(db, REGIONS)
    auth_tokens = AuthTokens(db, tokens, logins, catalogs, ServiceProviders(db), options, instance_ha_url)
    resources = (
        Version(),
        auth_tokens,
        AuthScopes(db, catalogs, instance_ha_url),
        Revocations(db),
        users,
        Resource(db, GROUPS),
        Members(db, users.page),
        Projects(db, options),
        ProjectTags(db),
        Domains(db),
        DomainConfig(db, credential_keys, options.passwords),
        Resource(db, ROLES),
        ImpliedRoles(db),
        Grants(db),
        RoleAssignments(db),
        ApplicationCredentials(db, hasher, options),
        AccessRules(db),
        Resource(db, SERVICES),
        Resource(db, of_endpoints),
        Resource(db, ENDPOINT_GROUPS),
        GroupedEndpoints(db, of_endpoints),
        ProjectEndpoints(db, of_endpoints),
        regions,
        NamedRegions(regions),
        Credentials(db, credential_keys, options),
        Ec2Credentials(db, credential_keys, options),
        SignedTokens(logins, credential_keys, auth_tokens),
        Trusts(db, options),
        Consumers(db, credential_keys),
        OAuthTokens(db, credential_keys, options),
        AccessTokens(db),
        Resource(db, IDENTITY_PROVIDERS),
        Protocols(db),
        Resource(db, MAPPINGS),
        Resource(db, SERVICE_PROVIDERS),
        Resource(db, POLICIES),
        EndpointPolicies(db, of_endpoints),
        RegisteredLimits(db),
        Limits(db),
    )
    return ApiApp(pipeline(http), [("", VersionList()), *(("/v3", resource) for resource in resources)])
