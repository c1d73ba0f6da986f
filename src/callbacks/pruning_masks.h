// Which elements of weights are pruned: the smallest ones, alone or in groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::callbacks {

using at::Tensor;

enum class PruneBy { element, row, column, head, pattern };
enum class PruneScope { weight, global };

// So many of each `of` neighbours stay.
struct PrunePattern {
  std::int64_t stay = 2, of = 4;
  double sparsity() const { return 1 - static_cast<double>(stay) / static_cast<double>(of); }
};
std::optional<PrunePattern> parse_pattern(const std::string& text);  // "2:4"; nothing: it is none

// The attention of a layer: `heads` of queries, of which neighbours share one of `shared` keys and values.
struct PruneHeads {
  std::string q, k, v, o;  // names of weights; k and v may be "": they stay as they are
  std::int64_t heads = 0, shared = 0;
};

using Shapes = std::map<std::string, std::vector<std::int64_t>>;  // of weights, by name
double numel_of(const std::vector<std::int64_t>& shape);

// Of the weights that are to be pruned; Error(config) where there is no q_proj with its o_proj among them, or only one
// of these two.
std::vector<PruneHeads> find_heads(const Shapes& shapes, const config::Node& hf_config);

struct PruneHow {
  PruneBy by = PruneBy::element;
  PruneScope scope = PruneScope::weight;
  std::int64_t block = 1;  // rows or columns that are one
  std::optional<PrunePattern> pattern = {};
  std::vector<PruneHeads> heads = {};
};

// Of each weight, in its shape, false where it is pruned: `share` of what there is, rounded to the nearest number; of
// equal ones the first. Of a pattern as many of each group as the share has come to, rounded down.
std::map<std::string, Tensor> make_masks(const std::map<std::string, Tensor>& weights, const PruneHow& how,
                                         double share);

void clear(Tensor& value, const Tensor& mask);  // where the mask is false
double count_zeros(const Tensor& mask);

}  // namespace hone::callbacks

namespace hone {

template <>
inline constexpr auto config::enum_names<callbacks::PruneBy> =
    std::to_array<std::pair<callbacks::PruneBy, std::string_view>>({{callbacks::PruneBy::element, "element"},
                                                                    {callbacks::PruneBy::row, "row"},
                                                                    {callbacks::PruneBy::column, "column"},
                                                                    {callbacks::PruneBy::head, "head"},
                                                                    {callbacks::PruneBy::pattern, "pattern"}});
template <>
inline constexpr auto config::enum_names<callbacks::PruneScope> =
    std::to_array<std::pair<callbacks::PruneScope, std::string_view>>(
        {{callbacks::PruneScope::weight, "weight"}, {callbacks::PruneScope::global, "global"}});

}  // namespace hone
