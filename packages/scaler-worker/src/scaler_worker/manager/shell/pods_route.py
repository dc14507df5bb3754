"""Through which address of this host pods reach it."""

from __future__ import annotations

from urllib.parse import urlsplit

from scaler_protocol.address import parse_address
from scaler_protocol.command import BadInput
from scaler_worker.manager.shell.batch_route import ELSEWHERE, address_towards
from scaler_worker.manager.shell.kubernetes_api import KubernetesApi


def address_for_pods(kube_config: str | None, kube_context: str | None) -> str:
    """A free port at the address from which this host reaches the API server, or else other hosts. Raises BadInput."""
    server = urlsplit(KubernetesApi(kube_config, kube_context, None).server).hostname
    for place in (server, ELSEWHERE):
        address = address_towards(place) if place else None
        if address is not None and not parse_address(address).is_local:
            return address
    raise BadInput(
        "Cannot find the address at which pods reach this host. Start a scheduler at an address of its host in the "
        "network, or in the cluster, and give that."
    )
