"""Decodes LZ4 frames into existing memory.

https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md and lz4_Block_format.md. Libraries that
decode a stream allocate a megabyte for each. Blocks of a dataset are read too often for that.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..arrays.compiled import kernel

Bytes = npt.NDArray[np.uint8]
MAGIC = 0x184D2204
WIDTH = 8  # bytes copied at a time
# For each distance of a match: its least multiple that is at least WIDTH.
FAR = np.array([0, *(d * -(-WIDTH // d) for d in range(1, WIDTH))])
STORED = 1 << 31  # set in the size of a block that is not compressed


def decode_frame(packed: memoryview, into: memoryview) -> None:
    """Decode the one frame in `packed` so that it fills `into`.

    Raises ValueError if it does not fill `into`, is damaged, or needs a dictionary.
    """
    source, target = np.frombuffer(packed, np.uint8), np.frombuffer(into, np.uint8)
    if len(packed) < 7 or number(packed, 0) != MAGIC:
        raise ValueError("it does not begin with an LZ4 frame")
    flags = packed[4]
    if flags >> 6 != 1 or flags & 0b11:
        raise ValueError(f"its LZ4 frame has the flags {flags:#010b}, which are not supported")
    block_sums, content_sum = flags & 0b10000, flags & 0b100
    at = 14 if flags & 0b1000 else 6  # the size of the contents is not needed
    if len(packed) <= at or packed[at] != xxhash.xxh32_intdigest(packed[4:at]) >> 8 & 0xFF:
        raise ValueError("the header of its LZ4 frame is damaged")
    at, done = at + 1, 0
    while size := number(packed, at):
        begin, end = at + 4, at + 4 + size % STORED
        if end > len(packed):
            raise ValueError("its LZ4 frame is cut off")
        if size & STORED:
            if end - begin > len(into) - done:
                raise ValueError(f"it holds more than {len(into)} bytes")
            target[done : done + end - begin] = source[begin:end]
            done += end - begin
        else:
            done = decode_block(source[begin:end], target, done)
            if done < 0:
                raise ValueError(f"an LZ4 block is damaged, or has more than {len(into)} bytes")
        at = end
        if block_sums:
            check_sum(packed, at, packed[begin:end])
            at += 4
    at += 4
    if content_sum:
        check_sum(packed, at, into[:done])
        at += 4
    if done != len(into) or at != len(packed):
        raise ValueError(
            f"it holds {done} bytes in {at} compressed ones: must be {len(into)} in {len(packed)}"
        )


def number(packed: memoryview, at: int) -> int:
    """Return the unsigned integer in 4 bytes from `at` on, or raise ValueError."""
    if at + 4 > len(packed):
        raise ValueError("its LZ4 frame is cut off")
    return int.from_bytes(packed[at : at + 4], "little")


def check_sum(packed: memoryview, at: int, found: memoryview) -> None:
    """Raise ValueError unless the checksum at `at` is that of `found`."""
    if number(packed, at) != xxhash.xxh32_intdigest(found):
        raise ValueError("a checksum of its LZ4 frame does not match")


def _copy_vector(context: Any, source: Any, place: Any, into: Any, at: Any) -> Any:
    """Copy WIDTH bytes of `source` from `place` to `into` at `at`; read all first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), WIDTH).as_pointer()

        def pointer(array: int) -> Any:
            found = context.make_array(signature.args[array])(context, builder, arguments[array])
            return builder.bitcast(builder.gep(found.data, [arguments[array + 1]]), vector)

        builder.store(builder.load(pointer(0), align=1), pointer(2), align=1)
        return context.get_dummy_value()

    return types.void(source, types.intp, into, types.intp), generate


copy_vector: Any = intrinsic(_copy_vector)


@kernel
def decode_block(packed: Bytes, into: Bytes, at: int) -> int:
    """Decode an LZ4 block to into[at:]; return its end, or -1 if it is invalid.

    Invalid is a block that is damaged or too long. Matches may begin in earlier output, into[:at].
    """
    place: Any = 0
    end, room = packed.size, into.size
    while place < end:
        token: Any = np.intp(packed[place])
        place += 1
        length: Any = token >> 4
        if length == 15:
            more: Any = 255
            while more == 255:
                if place == end:
                    return -1
                more = np.intp(packed[place])
                place += 1
                length += more
        if length > end - place or length > room - at:
            return -1
        if length + WIDTH <= end - place and length + WIDTH <= room - at:
            for i in range(0, length, WIDTH):  # may write past the end, which is overwritten next
                copy_vector(packed, place + i, into, at + i)
        else:
            for i in range(length):
                into[at + i] = packed[place + i]
        at += length
        place += length
        if place == end:  # the last sequence has no match
            return at
        if end - place < 2:
            return -1
        back: Any = np.intp(packed[place]) | np.intp(packed[place + 1]) << 8
        place += 2
        if back == 0 or back > at:
            return -1
        length = token & 15
        if length == 15:
            more = 255
            while more == 255:
                if place == end:
                    return -1
                more = np.intp(packed[place])
                place += 1
                length += more
        length += 4
        if length > room - at:
            return -1
        stop = at + length
        if length + WIDTH <= room - at:
            # An overlapping match repeats with period `back`, so any multiple of it works too.
            far, first = back, at
            if back < WIDTH:
                far = FAR[back]
                first = min(stop, at + far - back)
                for i in range(at, first):
                    into[i] = into[i - back]
            for i in range(first, stop, WIDTH):
                copy_vector(into, i - far, into, i)
        else:
            for i in range(at, stop):
                into[i] = into[i - back]
        at = stop
    return -1
