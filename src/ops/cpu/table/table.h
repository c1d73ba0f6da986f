// The primitives of the CPU over tensors: they cut work for the threads and call the kernels of ops/cpu.
#pragma once

#include "ops/backend.h"

namespace hone::ops::cpu_table {

Backend::Products products();
Backend::Attention attention();
Backend::Norms norms();
Backend::Mlstm mlstm();
Backend::GatedDelta gated_delta();
Backend::Ssd ssd();
Backend::SelectiveScan selective_scan();
Backend::ShortConv short_conv();
Backend::Elementwise elementwise();
Backend::Sums sums();
Backend::Routed routed();

// Of these groups what has a file of its own.
std::vector<at::Tensor> skinny_products(const at::Tensor& x_RI, const std::vector<LinearWeight>& weights);
at::Tensor skinny_gated(const at::Tensor& x_RI, const LinearWeight& gate, const LinearWeight& up,
                        Activation activation);
at::Tensor skinny_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& groups);
at::Tensor skinny_gated_groups(const at::Tensor& x_SI, const std::vector<SkinnyGroup>& gates,
                               const std::vector<SkinnyGroup>& ups, Activation activation);
at::Tensor decode_attention(const at::Tensor& q_RHK, const at::Tensor& k_RGCK, const at::Tensor& v_RGCK,
                            const at::Tensor& held_R, const AttentionOptions& options);
void store_in_cache(const at::Tensor& k_NGK, const at::Tensor& v_NGK, const CacheRoom& to,
                    const std::vector<CacheRun>& runs);
void store_one_each(const at::Tensor& k_RGK, const at::Tensor& v_RGK, const CacheRoom& to, const at::Tensor& held_R);

}  // namespace hone::ops::cpu_table
