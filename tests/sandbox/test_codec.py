"""Observations are transmitted bit by bit; actions are checked before they are used."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evopolicygym.errors import Fault
from evopolicygym.sandbox.policy.action_decoder import Clipped, action_decoder
from evopolicygym.sandbox.policy.codec import (
    InvalidAction,
    action_encoder,
    action_size,
    observation_decoder,
    observation_encoder,
    size_of,
)
from evopolicygym.sandbox.policy.protocol import PolicyFailure


def box(shape, dtype, low=-np.inf, high=np.inf):
    return {"type": "Box", "shape": list(shape), "dtype": str(np.dtype(dtype)), "low": low, "high": high}


def through(schema, value):
    frame = bytearray(8) + observation_encoder(schema)(value)
    assert len(frame) == 8 + size_of(schema)
    arrived = observation_decoder(schema, frame, 8)()
    frame[:] = bytes(len(frame))  # the next observation does not change this one
    return arrived


def decoded(schema, sent):
    clipped = Clipped()
    return action_decoder(schema, clipped, bytearray(sent), 0)(), clipped.count


arrays = st.sampled_from([np.float32, np.float64, np.uint8, np.int64]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=3, max_side=5))
)


@given(arrays)
def test_arrays_keep_every_bit(array):
    arrived = through(box(array.shape, array.dtype), array)
    assert arrived.dtype == array.dtype
    assert arrived.tobytes() == array.tobytes()
    assert arrived.shape == array.shape
    assert arrived.flags.writeable


@given(st.text(max_size=60), st.integers(-(2**63), 2**63 - 1), arrays)
def test_nested_observations(text, number, array):
    schema = {
        "type": "Dict",
        "spaces": {
            "mission": {"type": "Text", "max_length": 60},
            "pair": {
                "type": "Tuple",
                "spaces": [{"type": "Discrete", "n": 4, "start": 0}, box(array.shape, array.dtype)],
            },
        },
    }
    arrived = through(schema, {"mission": text, "pair": (number, array)})
    assert arrived["mission"] == text
    assert arrived["pair"][0] == number
    assert arrived["pair"][1].tobytes() == array.tobytes()


def test_an_observation_of_another_shape_is_an_error_of_the_simulator():
    with pytest.raises(Fault, match="its space says"):
        observation_encoder(box((3,), np.float32))(np.zeros(4))


@given(hnp.arrays(np.float64, (3,), elements=st.floats(-5, 5)))
def test_box_actions_are_clipped_and_counted(action):
    schema = box((3,), np.float64, [-1.0, -2.0, 0.0], 1.0)
    sent = action_encoder(schema)(action)
    assert len(sent) == action_size(schema)
    arrived, clipped = decoded(schema, sent)
    expected = np.clip(action, [-1.0, -2.0, 0.0], 1.0)
    assert (arrived == expected).all()
    assert clipped == int((action != expected).any())


def test_negative_zero_is_inside():
    schema = box((1,), np.float32, 0.0, 1.0)
    arrived, clipped = decoded(schema, action_encoder(schema)(np.array([-0.0], np.float32)))
    assert clipped == 0
    assert np.signbit(arrived[0])


def test_integer_boxes_never_wrap_round():
    schema = box((2,), np.uint8, 0, 255)
    arrived, clipped = decoded(schema, action_encoder(schema)([300, -1]))
    assert arrived.tolist() == [255, 0]
    assert arrived.dtype == np.uint8
    assert clipped == 1
    with pytest.raises(InvalidAction, match="whole numbers"):
        action_encoder(schema)([0.5, 1])


def test_the_widest_integers_keep_what_fits_the_wire():
    schema = box((2,), np.uint64, 0, 2**64 - 1)
    arrived, clipped = decoded(schema, action_encoder(schema)([0, 2**63 - 1]))
    assert (arrived.tolist(), arrived.dtype, clipped) == ([0, 2**63 - 1], np.uint64, 0)


@given(st.binary(min_size=8, max_size=8))
def test_whatever_bytes_come_a_discrete_action_is_in_range_or_refused(data):
    try:
        action, _ = decoded({"type": "Discrete", "n": 5, "start": -1}, data)
    except PolicyFailure as failure:
        assert failure.kind == "invalid_action"
    else:
        assert -1 <= action <= 3


@given(st.binary(min_size=12, max_size=12))
def test_whatever_bytes_come_a_box_action_is_in_range_or_refused(data):
    try:
        action, _ = decoded(box((3,), np.float32, -1.0, 1.0), data)
    except PolicyFailure as failure:
        assert failure.kind == "invalid_action"
    else:
        assert (np.abs(action) <= 1).all()
