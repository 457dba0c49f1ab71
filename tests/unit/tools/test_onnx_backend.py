"""The standard ONNX backend: its interface, and a fixed sample of the backend tests (all: `make conformance`)."""

from functools import cache

import numpy as np
import pytest
from onnx import helper
from onnx_graphs import model_of, one_node

import mlc.onnx_backend as backend
from mlc.support.errors import UserError
from mlc.tools import conformance

SAMPLE = """
acosh affine_grid_3d argmax_keepdims_example asinh atan_example atanh averagepool_2d_strides
basic_deform_conv_with_padding bitcast_bool_to_uint8 bitshift_right_int32_shift_ge_width bitwise_and_i32_2d
bitwise_not_2d bitwise_or_i32_2d bitwise_xor_i32_2d blackmanwindow castlike_DOUBLE_to_FLOAT
causal_conv_with_state_with_past_state center_crop_pad_crop col2im convinteger_without_padding convtranspose_3d
cosh cumprod_1d_int32_exclusive cumsum_2d_axis_0 depthtospace_crd_mode_example dequantizelinear_int16 det_2d
dft_opset19 dropout_default_mask dynamicquantizelinear_max_adjusted einsum_transpose
eyelike_populate_off_main_diagonal gather_elements_0 gathernd_example_int32 gelu_tanh_1 gridsample
group_normalization_example hammingwindow hannwindow hardmax_axis_2 if isinf_negative l2normalization_axis_0
layer_normalization_2d_axis_negative_2 loop11 lppool_2d_dilations lrn matmulinteger
maxpool_2d_ceil_output_size_reduce_by_one maxunpool_export_without_output_shape mish mod_uint64 mvn nllloss_NC
onehot_negative_indices optional_has_element_empty_no_input_tensor_input prelu_example qlinearconv
qlinearmatmul_3D_uint8_float32 quantizelinear range_bfloat16_type_positive_delta reduce_l1_empty_set
reduce_log_sum_exp_empty_set reduce_sum_square_negative_axes_keepdims_random resize_upsample_scales_cubic
reversesequence_time rms_normalization_4d_axis1 roialign_aligned_false scan9_sum
scatter_elements_with_reduction_mul scatter_with_axis scatternd_add sce_mean_no_weight_ii_3d_log_prob shrink_hard
simple_rnn_defaults spacetodepth split_zero_size_splits_opset18 stft swiglu_float16 swish tensorscatter_3d
tfidfvectorizer_tf_only_bigrams_skip0 top_k_same_values triu_zero upsample_nearest wrap_pad
if_opt loop16_seq_none identity_opt sequence_map_add_1_sequence_1_tensor optional_get_element_optional_sequence
training_dropout_mask attention_4d_causal_fp16
sequence_model1 operator_selu PReLU_1d_multiparam AvgPool3d_stride1_pad0_gpu_input
""".split()


@cache
def cases():
    return {case.name.removeprefix("test_"): case for case in conformance.load_cases() if case.kind != "light"}


@pytest.mark.parametrize("name", SAMPLE)
def test_backend_test(name: str):
    outcome = conformance.run_case(cases()[name])
    assert (outcome.status, outcome.reason) == ("passed", "")


def test_values_that_decide_shapes_are_met_at_a_call():
    x, shape = np.arange(6, dtype=np.float32), np.array([2, 3])
    prepared = backend.prepare(one_node("Reshape", {"x": x, "s": shape}), opt_level=1)
    assert prepared.executable.executor == "vm"
    assert "expected input 1 ('s') to be constant" in prepared.warnings[0]
    np.testing.assert_array_equal(prepared.run([x, shape]).y, x.reshape(2, 3))
    np.testing.assert_array_equal(prepared.run([x + 1, shape])[0], (x + 1).reshape(2, 3))
    np.testing.assert_array_equal(prepared.run({"s": np.array([3, -1]), "x": x})["y"], x.reshape(3, 2))
    assert prepared.executable.report["compiled"] == 3  # what wants the value, and two values


def test_values_that_decide_no_shape_are_computed_with():
    x, k = np.arange(12, dtype=np.float32).reshape(3, 4), np.array(1)
    prepared = backend.prepare(one_node("Trilu", {"x": x, "k": k}), opt_level=1)
    assert prepared.executable.executor == "aot"
    for k in range(-2, 3):
        np.testing.assert_array_equal(prepared.run([x, np.array(k)])[0], np.triu(x, k))


def test_one_node_and_one_model():
    x = np.array([-1.0, 2.0], np.float32)
    (result,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    np.testing.assert_array_equal(result, [0, 2])
    (result,) = backend.run_model(one_node("Neg", {"x": x}), [x])
    np.testing.assert_array_equal(result, -x)


def test_compatibility():
    x = np.zeros(2, np.float32)
    assert backend.is_compatible(one_node("Relu", {"x": x}))
    assert not backend.is_compatible(one_node("Relu", {"x": x}), "CUDA")
    assert not backend.is_compatible(model_of([helper.make_node("Unknown", ["x"], ["y"], domain="own")], {"x": x}))
    assert not backend.supports_device("CUDA:1")


def test_wrong_calls():
    x = np.zeros(2, np.float32)
    with pytest.raises(UserError, match="expected the device CPU, but got CUDA"):
        backend.prepare(one_node("Relu", {"x": x}), "CUDA")
    with pytest.raises(UserError, match="expected 1 inputs, but got 2"):
        backend.prepare(one_node("Relu", {"x": x})).run([x, x])


def test_a_page_of_outcomes():
    outcomes = [
        conformance.Outcome("test_a", "node", "Abs", "passed"),
        conformance.Outcome("test_b", "node", "Abs", "failed", "UserError: no | such thing"),
        conformance.Outcome("test_c", "node", "Bernoulli", "skipped", "random ops"),
    ]
    text = conformance.page(outcomes)
    assert "**1 passed, 1 failed, 1 left out.** Of the node tests in scope 1 of 2 pass." in text
    assert "| Abs | 1 | 1 | 0 | no / such thing |" in text
    assert "| 1 | random ops |" in text


def test_a_test_that_ends_its_process_has_failed(monkeypatch):
    monkeypatch.setattr(conformance, "run_case", lambda case: __import__("os")._exit(3))
    some = [cases()["abs"], cases()["acos"]]
    outcomes = conformance.run_cases(some, jobs=1, quiet=True)
    assert [(o.name, o.status, o.reason) for o in outcomes] == [
        ("test_abs", "failed", "the process died"),
        ("test_acos", "failed", "the process died"),
    ]
