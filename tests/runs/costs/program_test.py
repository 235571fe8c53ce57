"""The text of compiled programs, as written by compilers for CPUs and TPUs."""

from xmodal.runs.costs.program import count_bytes, read_program

TEXT = """
HloModule jit_f, is_scheduled=true

%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %p = (s32[], f32[4]{0:T(256)}) parameter(0)
  %x = f32[4]{0:T(256)} get-tuple-element(%p), index=1
  ROOT %t = (s32[], f32[4]{0:T(256)}) tuple(%i, /*index=1*/%x)
}

%condition (q: (s32[], f32[4])) -> pred[] {
  %q = (s32[], f32[4]{0:T(256)}) parameter(0)
  %n = s32[]{:T(256)} constant(7)
  ROOT %less = pred[] compare(%j, %n), direction=LT
}

ENTRY %main.3 (a: f32[4]) -> f32[4] {
  %a = f32[4]{0:T(256)} parameter(0)
  %w = (s32[], f32[4]{0:T(256)}) while(%s), condition=%condition, body=%body
  ROOT %r = f32[4]{0:T(256)} get-tuple-element(%w), index=1, metadata={op_name="jit(f)/x"}
}
"""


def test_operations_and_how_often_they_run():
    program = read_program(TEXT)
    assert program.entry == "main.3"
    assert list(program.computations) == ["body", "condition", "main.3"]
    loop = program.computations["main.3"][1]
    assert (loop.name, loop.opcode, loop.operands) == ("w", "while", ("s",))
    assert loop.called == ["condition", "body"]
    assert program.computations["body"][2].operands == ("i", "x")
    assert program.loop_lengths() == (7,)
    assert program.count_runs() == {"body": 7, "condition": 7, "main.3": 1}
    # Unknown length: counted as often as it is certain to run.
    unknown = read_program(TEXT.replace("constant(7)", "parameter(1)"))
    assert unknown.loop_lengths() == ()
    assert unknown.count_runs()["body"] == 1


def test_sizes_hold_the_filling_of_tiles():
    assert count_bytes("f32[16]{0:T(256)}") == [1024]
    assert count_bytes("bf16[5,24]{1,0:T(8,128)(2,1)}") == [8 * 128 * 2]
    # The first dimension is the minor one.
    assert count_bytes("f32[24,5]{0,1:T(8,128)}") == [8 * 128 * 4]
    assert count_bytes("(f32[2,3]{1,0}, pred[], s32[4])") == [24, 1, 16]
