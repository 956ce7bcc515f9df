"""Kernel names that people can read, and keys of which none is another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.explain.names import (
    BRIEF,
    DIGEST,
    KEPT,
    brief,
    identity,
    key,
    short,
    unnumbered,
)

FILL = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, "
    "std::array<char *, (unsigned long)1>>(int, T2, T3)"
)

COPY = (
    "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance "
    "3)]::operator ()() "
    "const::[lambda() (instance 12)]::operator ()() const::[lambda(c10::BFloat16) (instance 1)]>"
    "(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (FILL, "FillFunctor<float> in vectorized_elementwise_kernel<4>"),
        ("void (anonymous namespace)::softmax<(bool)1>(T1)", "softmax<1>"),
        (
            "void at::native::<unnamed>::multi_tensor_apply_kernel<std::plus<float>>(T1)",
            "plus<float> in multi_tensor_apply_kernel",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_sgemm_256x128>(T1::Params)",
            "Kernel2<cutlass_80_sgemm_256x128>",
        ),
        (
            "ncclDevKernel_AllReduce_Sum(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "ncclDevKernel_AllReduce_Sum",
        ),
        (
            "std::vector<std::pair<void *, unsigned int> >::f() const",
            "vector<pair<void *, unsigned int>>::f() const",
        ),
        ("call(void (*)(int), float)", "call"),
        ("functor::operator()(int)", "operator()"),
        ("spin_kernel #a94234", "spin_kernel"),
        (
            COPY,
            "direct_copy_kernel_cuda[BFloat16] in elementwise_kernel<128, 4>",
        ),
        ("void at::native::reduce_kernel<(int)512, float>(T1)", "reduce_kernel<512, float>"),
        (
            (
                "void at::native::multi_tensor_apply_kernel<TensorListMetadata<(int)2>, "
                "Lerp<float, (int)2>>(T1, T2)"
            ),
            "Lerp<float, 2> in multi_tensor_apply_kernel",
        ),
        (
            "nchwToNhwcKernel<float, (bool)1, (cudnnKernelDataType_t)2>",
            "nchwToNhwcKernel<float, 1, 2>",
        ),
        (
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n__5x_cublas",
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n__5x_cublas",
        ),
        ("triton_poi_fused_relu_0", "triton_poi_fused_relu_0"),
        ("(other kernels)", "(other kernels)"),
        ("broken(", "broken("),
        ("void", "void"),
        ("", ""),
    ],
)
def test_a_name_is_shown_without_what_says_nothing(name: str, shown: str) -> None:
    assert short(name) == shown


def test_a_key_is_readable_and_another_one_of_what_reads_alike() -> None:
    one, other = "void a::fill<4>(int)", "void b::fill<4>(int)"
    assert short(one) == short(other)
    assert key(one) != key(other)
    assert key(one).startswith("fill<4> #")
    assert key("triton_poi_fused_relu_0") == "triton_poi_fused_relu_0"


def test_within_a_sentence_a_name_is_cut_off() -> None:
    assert brief("void a::fill<4>(int)") == "fill<4>"
    shown = brief(f"void gemm<{'Tile<128>, ' * 40}int>(float)")
    assert (len(shown), shown[:20], shown[-3:]) == (BRIEF, "gemm<Tile<128>, Tile", "...")


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_relu_0",
        f"triton_per_fused_{'add_' * 40}sum_7",
        FILL,
        "x" * 300,
        "a \ud800 b",
    ],
)
def test_a_name_and_its_key_are_the_same_kernel(name: str) -> None:
    assert identity(name) == identity(key(name))
    assert identity(name) != identity(f"{name}x")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("triton_poi_fused_add_2", "triton_poi_fused_add"),
        ("triton_poi_fused_0", "triton_poi_fused"),
        ("triton_poi_fused_add", "triton_poi_fused_add"),
        ("triton_attention_2", "triton_attention_2"),
    ],
)
def test_kernels_that_torch_compile_numbers_are_the_same_whatever_their_number(
    name: str, shown: str
) -> None:
    assert unnumbered(name) == shown
    assert identity(name) == identity(shown)
    assert unnumbered(shown) == shown


@given(st.text(max_size=400))
def test_a_key_is_short_and_its_own_key(name: str) -> None:
    shown = key(name)
    assert len(shown) <= KEPT + len(" #") + DIGEST
    assert key(shown) == shown


@given(st.text(alphabet="ab:<>() ,*0", max_size=60))
def test_any_name_can_be_shown(name: str) -> None:
    assert len(short(name)) <= max(len(name), 1)
    assert short(name) or not name
