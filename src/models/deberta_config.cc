// From config.json of DeBERTa v2 and v3 to what it means.
#include "models/deberta_config.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"

namespace hone::models {
namespace {

using config::Node;

// "p2c|c2p", or a list of them.
std::vector<std::string> kinds_of(const Node& node) {
  std::vector<std::string> parts;
  if (node.kind() == Node::Kind::scalar && !node.is_null())
    for (const std::string& part : split(node.text(), '|')) parts.emplace_back(trim(part));
  if (node.kind() == Node::Kind::list)
    for (const Node& one : node.items()) parts.push_back(one.text());
  return parts;
}

MaybeActivation read_or_tanh(const std::string& name, const char* key, Problems& problems) {
  if (name == "tanh") return std::nullopt;
  return nn::read_activation(name, key, problems);
}

void read_distances(const DebertaConfig& c, DebertaShape& s, Problems& problems) {
  for (const std::string& part : kinds_of(c.pos_att_type.node)) {
    problems.require(part == "c2p" || part == "p2c", "pos_att_type",
                     fmt::format("got {}, expected c2p and p2c", hone::quoted(part)));
    s.c2p |= part == "c2p", s.p2c |= part == "p2c";
  }
  s.kinds = s.c2p + s.p2c;
  if (!c.relative_attention) {
    s.c2p = s.p2c = false;
    return;
  }
  s.max_distance = c.max_relative_positions < 1 ? c.max_position_embeddings : c.max_relative_positions;
  s.span = c.position_buckets > 0 ? c.position_buckets : s.max_distance;
  problems.require(c.position_buckets < 1 || c.position_buckets > 3, "position_buckets",
                   fmt::format("got {}, expected -1 or more than 3", c.position_buckets));
  problems.require(
      c.position_buckets < 1 || s.max_distance - 1 > c.position_buckets / 2, "max_relative_positions",
      fmt::format("got {}, expected more than half of position_buckets, {}", s.max_distance, c.position_buckets));
  for (const std::string& part : split(c.norm_rel_ebd, '|')) {
    const std::string name(trim(part));
    problems.require(name == "none" || name == "layer_norm", "norm_rel_ebd",
                     fmt::format("got {}, expected layer_norm or none", hone::quoted(name)));
    s.norms_distances |= name == "layer_norm";
  }
}

DebertaShape resolve(const DebertaConfig& c, Problems& problems) {
  DebertaShape s;
  read_shape(c, s, problems, /*squares=*/6);
  const auto must_be = [&](const char* key, const std::optional<std::int64_t>& got, std::int64_t expected) {
    problems.require(got.value_or(expected) == expected, key,
                     fmt::format("got {}, expected {}", got.value_or(0), expected));
  };
  must_be("attention_head_size", c.attention_head_size, s.head_size);
  must_be("pooler_hidden_size", c.pooler_hidden_size, c.hidden_size);
  must_be("embedding_size", c.embedding_size, c.hidden_size);
  must_be("conv_groups", c.conv_groups, 1);
  problems.require(c.conv_kernel_size == 0 || c.conv_kernel_size % 2 == 1, "conv_kernel_size",
                   fmt::format("got {}, expected an odd number", c.conv_kernel_size));
  read_distances(c, s, problems);
  s.pooler_activation = read_or_tanh(c.pooler_hidden_act, "pooler_hidden_act", problems);
  if (c.conv_kernel_size > 0) s.conv_activation = read_or_tanh(c.conv_act, "conv_act", problems);
  return s;
}

}  // namespace

void DebertaConfig::validate(Problems& problems) const { resolve(*this, problems); }

DebertaShape resolve(const DebertaConfig& c, const HeadRequest& head) {
  Problems problems;
  return with_head(resolve(c, problems), head, c.tie_word_embeddings, problems);
}

}  // namespace hone::models
