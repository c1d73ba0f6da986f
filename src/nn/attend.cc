// Attention of a pass, and where its tokens stand.
#include "hone/layers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hone/random.h"
#include "nn/context.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "nn/shared_keys.h"
#include "ops/relative_bias.h"
#include "ops/rope.h"
#include "tensor/device.h"

namespace hone::nn {
namespace {

ops::AttentionOptions in_pass(ops::AttentionOptions options, const Pass& pass) {
  if (!pass.training) options.dropout = 0;
  if (options.dropout > 0) options.seed = Random(pass.seed, "attention").bits(static_cast<std::uint64_t>(pass.layer));
  return options;
}

// Of this rank's heads, and what belongs to each of these. With a slice of the weights it has all tokens of them.
Tensor by_own_heads(const ops::Rotated& qkv, const Plan& plan, ops::AttentionOptions options) {
  const Context& context = *plan.context();
  const bool has_all = context.shares_weights();
  const std::vector<Tensor> all = has_all ? std::vector{qkv.q_NHK, qkv.k_NGK, qkv.v_NGK}
                                          : context.to_heads({qkv.q_NHK, qkv.k_NGK, qkv.v_NGK});
  options.first_head = context.first_head(qkv.q_NHK.size(1) * (has_all ? context.ranks() : 1));
  Tensor sinks;
  ops::RelativeBias bias;
  if (options.sinks) sinks = context.own_heads(*options.sinks), options.sinks = &sinks;
  if (options.bias) bias = {context.own_heads(options.bias->bias_HD), options.bias->zero}, options.bias = &bias;
  const Tensor y_Mh = plan.attention(all[0], all[1], all[2], options);
  return has_all ? y_Mh : context.to_tokens(y_Mh);
}

// Without a cache.
Tensor within_documents(const ops::Rotated& qkv, Pass& pass, const ops::AttentionOptions& options) {
  const Plan& plan = pass.plan();
  Tensor y_NHK = plan.context()
                     ? by_own_heads(qkv, plan, options)
                     : plan.from_documents(plan.attention(plan.to_documents(qkv.q_NHK), plan.to_documents(qkv.k_NGK),
                                                          plan.to_documents(qkv.v_NGK), options));
  pass.sow("attention", y_NHK);
  return y_NHK;
}

// rope: by which q and k are yet to be rotated; null: they are.
Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const ops::RopeTable* rope, Pass& pass,
              const ops::AttentionOptions& given) {
  const ops::AttentionOptions options = in_pass(given, pass);
  if (pass.cache) return pass.cache->attend(pass.layer, q_NHK, k_NGK, v_NGK, pass.plan(), options, rope);
  return within_documents(
      rope ? ops::rope_beside(q_NHK, k_NGK, v_NGK, *rope) : ops::Rotated{q_NHK, k_NGK, v_NGK}, pass, options);
}

// What a layer's keys and values are called where it leaves them.
std::string keys_of(std::int64_t layer) { return fmt::format("layers.{}.keys", layer); }
std::string values_of(std::int64_t layer) { return fmt::format("layers.{}.values", layer); }

}  // namespace

Tensor attend(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, Pass& pass,
              ops::AttentionOptions options) {
  return attend(q_NHK, k_NGK, v_NGK, nullptr, pass, options);
}

Tensor attend_rotated(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const ops::RopeTable& rope,
                      Pass& pass, ops::AttentionOptions options) {
  return attend(q_NHK, k_NGK, v_NGK, &rope, pass, options);
}

Tensor attend_and_leave(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const ops::RopeTable& rope,
                        Pass& pass, const ops::AttentionOptions& options) {
  const auto [q, k, v] = ops::rope_beside(q_NHK, k_NGK, v_NGK, rope);
  pass.plan().left()[keys_of(pass.layer)] = k, pass.plan().left()[values_of(pass.layer)] = v;
  return attend(q, k, v, nullptr, pass, options);
}

Tensor attend_again(const Tensor& q_NHK, std::int64_t layer, const ops::RopeTable& rope, Pass& pass,
                    const ops::AttentionOptions& given) {
  const ops::AttentionOptions options = in_pass(given, pass);
  const Tensor q = ops::rope(q_NHK, rope), &k = left(pass, keys_of(layer)), &v = left(pass, values_of(layer));
  if (pass.cache) return pass.cache->attend_again(layer, q, k, v, pass.plan(), options);
  return within_documents({q, k, v}, pass, options);
}

const Tensor& left(Pass& pass, const std::string& name) {
  const auto found = pass.plan().left().find(name);
  HONE_ASSERT(found != pass.plan().left().end());
  return found->second;
}

Tensor positions(Pass& pass) {
  const Plan& plan = pass.plan();
  if (plan.is_one_token_each()) return pass.cache->positions_R(pass.batch.ids_BT.device()).unsqueeze(1);
  if (plan.positions_N().defined()) return pass.batch.positions_BT;
  const Tensor flat_N = plan.each_flat_token([](const PlannedDoc& doc) { return doc.position; });
  return plan.from_flat(devices::sent(flat_N.view({1, -1, 1}), pass.batch.ids_BT.device())).squeeze(-1);
}

}  // namespace hone::nn
