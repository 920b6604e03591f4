"""Clients that answer by secure aggregation, on a grid that sees all that comes back."""

from flwr.app import Error, Message

from maxfl.flower import MaxFL, Privacy, secure_mod
from maxfl.utils.errors import InputError
from support.flower_nodes import Nodes, make_app

SECURE = Privacy(clip=2.0, secure=True)
CLIENTS = ((1.0, 2.0, 0.25), (3.0, 2.0, -0.5), (2.5, 2.0, 0.1))
"""Loss, requirement and change of each."""


class Watched(Nodes):
    """A grid that keeps all that comes back; what fails at a client comes as Flower's error."""

    def __init__(self, *apps):
        super().__init__(*apps)
        self.seen = []

    def send_and_receive(self, messages, timeout=None):
        """Send one message after another."""
        replies = []
        for message in messages:
            try:
                replies += super().send_and_receive([message], timeout)
            except (InputError, ValueError) as error:
                replies.append(Message(Error(3, str(error)), reply_to=message))
        self.seen += replies
        return replies


def secure_app(*args, **options):
    return make_app(*args, mods=[secure_mod], **options)


def secure_strategy(nodes, **options):
    strategy = MaxFL(privacy=SECURE, fraction_evaluate=0.0, **options)
    return strategy, strategy.training_grid(nodes)
