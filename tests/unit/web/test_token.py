"""Who has the token."""

from __future__ import annotations

import pytest

from scaler_scheduler.web.token import TokenCheck, new_token

CHECK = TokenCheck("correct horse".replace(" ", "-"))
TOKEN = "correct-horse"


@pytest.mark.parametrize(
    ("query", "headers", "cookies"),
    [
        ({"token": TOKEN}, {}, {}),
        ({}, {"Authorization": f"Bearer {TOKEN}"}, {}),
        ({}, {"Authorization": f"bearer   {TOKEN} "}, {}),
        ({}, {}, {CHECK.cookie_name: CHECK.cookie_value}),
        ({"token": "old"}, {}, {CHECK.cookie_name: CHECK.cookie_value}),
    ],
)
def test_it_is_known_wherever_it_is_shown(
    query: dict[str, str], headers: dict[str, str], cookies: dict[str, str]
) -> None:
    assert CHECK.grants(query, headers, cookies)


@pytest.mark.parametrize(
    ("query", "headers", "cookies"),
    [
        ({}, {}, {}),
        ({"token": ""}, {"Authorization": ""}, {CHECK.cookie_name: ""}),
        ({"token": TOKEN + "x"}, {}, {}),
        ({"token": "\ud800"}, {"Authorization": "Bearer \u00e9"}, {CHECK.cookie_name: "\u202e"}),
        ({}, {"Authorization": TOKEN}, {}),
        ({}, {"Authorization": f"Basic {TOKEN}"}, {}),
        ({}, {}, {CHECK.cookie_name: TOKEN}),
        ({"token": CHECK.cookie_value}, {"Authorization": f"Bearer {CHECK.cookie_value}"}, {}),
        ({}, {}, {TokenCheck("another-one").cookie_name: TokenCheck("another-one").cookie_value}),
    ],
)
def test_nothing_else_is_taken_for_it(query: dict[str, str], headers: dict[str, str], cookies: dict[str, str]) -> None:
    assert not CHECK.grants(query, headers, cookies)


def test_servers_on_one_host_have_cookies_of_their_own() -> None:
    assert CHECK.cookie_name != TokenCheck("another-one").cookie_name
    assert TOKEN not in CHECK.cookie_value


def test_the_address_carries_any_token() -> None:
    assert TokenCheck("a&b#c/d").address("http://x/") == "http://x/?token=a%26b%23c%2Fd"


def test_without_a_token_everybody_may_look() -> None:
    check = TokenCheck(None)
    assert check.grants({}, {}, {}) and not check.shows_token({"token": ""}, {"Authorization": "Bearer "})
    assert check.address("http://x/") == "http://x/"


def test_new_tokens_differ_and_are_long() -> None:
    assert len({new_token() for _ in range(100)}) == 100 and len(new_token()) >= 32
