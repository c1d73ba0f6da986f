// From config.json to plain numbers, and back.
#include "models/xlstm_config.h"

#include <fmt/format.h>

#include <cmath>

#include "hone/config_read.h"
#include "models/check_parameters.h"
#include "models/sort_keys.h"

namespace hone::models {
namespace {

using config::Node;

// One number by two names.
std::int64_t either(std::optional<std::int64_t> a, std::optional<std::int64_t> b, std::int64_t absent, const char* name,
                    const char* other, Problems& problems) {
  problems.require(!a || !b || *a == *b, name,
                   fmt::format("got {}, expected what {} says, {}", a.value_or(0), other, b.value_or(0)));
  return a.value_or(b.value_or(absent));
}

// A share of the width that heads divide; 0: they do not.
std::int64_t head_size(std::int64_t hidden, double factor, std::int64_t heads, const char* name, Problems& problems) {
  const auto all = static_cast<std::int64_t>(static_cast<double>(hidden) * factor);
  problems.require(all > 0 && all % heads == 0, name,
                   fmt::format("got {}, of hidden_size {} that is {}; expected a multiple of num_heads ({})", factor,
                               hidden, all, heads));
  return all / heads;
}

void require_known(const XLstmConfig& c, Problems& problems) {
  const auto expect = [&](std::optional<bool> got, bool wanted, const char* key) {
    problems.require(got.value_or(wanted) == wanted, key, fmt::format("got {}, expected {}", !wanted, wanted));
  };
  expect(c.use_bias, false, "use_bias"), expect(c.add_out_norm, true, "add_out_norm");
  expect(c.add_post_blocks_norm, true, "add_post_blocks_norm"), expect(c.add_post_norm, false, "add_post_norm");
  expect(c.add_embedding_dropout, false, "add_embedding_dropout"), expect(c.add_qk_norm, false, "add_qk_norm");
  problems.require(!c.tie_word_embeddings, "tie_word_embeddings",
                   "got true, expected false: transformers 5 ties nothing in xlstm, and would read another model");
  problems.require(c.weight_mode == "single", "weight_mode",
                   fmt::format("got {}, expected single: weights that are joined cannot be read", c.weight_mode));
}

}  // namespace

XLstmShape resolve(const XLstmConfig& c, Problems& problems) {
  require_known(c, problems);
  XLstmShape s{.vocab = c.vocab_size,
               .heads = c.num_heads,
               .norm_eps = c.norm_eps,
               .eps = c.eps,
               .gate_cap = c.gate_soft_cap,
               .logit_cap = c.output_logit_soft_cap};
  s.hidden = either(c.hidden_size, c.embedding_dim, 4096, "hidden_size", "embedding_dim", problems);
  s.layers = either(c.num_hidden_layers, c.num_blocks, 32, "num_hidden_layers", "num_blocks", problems);
  s.key_size = head_size(s.hidden, c.qk_dim_factor, s.heads, "qk_dim_factor", problems);
  s.value_size = head_size(s.hidden, c.v_dim_factor, s.heads, "v_dim_factor", problems);
  const double inner = static_cast<double>(s.hidden) * c.ffn_proj_factor;
  const auto unit = static_cast<double>(c.ffn_round_up_to_multiple_of);
  s.inner = static_cast<std::int64_t>(std::floor((inner + unit - 1) / unit) * unit);
  const auto hidden = static_cast<double>(s.hidden), values = hidden * c.v_dim_factor;
  const double block = hidden * (2 * hidden * c.qk_dim_factor + 3 * values + 3 * static_cast<double>(s.inner));
  check_parameters(static_cast<double>(s.layers) * block + 2 * static_cast<double>(s.vocab) * hidden, "hidden_size",
                   problems);
  return s;
}

void XLstmConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const XLstmConfig& c, const XLstmShape& s, const std::string& dtype) {
  XLstmConfig full = c;
  full.hidden_size = full.embedding_dim = s.hidden, full.num_hidden_layers = full.num_blocks = s.layers;
  full.architectures = {"xLSTMForCausalLM"};
  Node node = config::write(full);
  const auto is_absent = [](const Node::Entry& entry) {
    return entry.second.is_null() && !entry.first.ends_with("token_id");
  };
  std::erase_if(node.entries(), is_absent);
  if (!dtype.empty()) node.at_or_add("dtype") = Node::scalar(dtype, /*quoted=*/true);
  node.at_or_add("use_cache") = config::Values<bool>::write(true);
  sort_keys(node);
  return node;
}

}  // namespace hone::models
