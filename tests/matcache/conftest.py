"""The fixture `memory` of most tests here; a test file may define its own."""

from tests.support.backends import memory as memory
