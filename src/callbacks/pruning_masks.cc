// Which elements of weights are pruned.
#include "callbacks/pruning_masks.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "hone/error.h"
#include "tensor/host.h"

namespace hone::callbacks {
namespace {

using Masks = std::map<std::string, Tensor>;

// What is pruned together, one score for each unit, and how a choice of units becomes masks.
struct Units {
  Tensor scores;                                              // [units]
  std::function<void(const Tensor& stays, Masks&)> to_masks;  // stays: [units], bool
};

// The root mean square, so that units of different sizes can be compared; of squares over `dims`.
Tensor scores_of(const Tensor& blocks, at::IntArrayRef dims) { return blocks.square().mean(dims).sqrt().reshape({-1}); }

Units units_of_elements(const std::string& name, const Tensor& weight) {
  return {weight.abs().reshape({-1}), [name, shape = weight.sizes().vec()](const Tensor& stays, Masks& masks) {
            masks[name] = stays.reshape(shape);
          }};
}

// A weight as [stacked, rows of blocks, rows in one, columns of blocks, columns in one].
Units units_of_lines(const std::string& name, const Tensor& weight, std::int64_t block, bool rows) {
  const std::int64_t height = weight.size(-2), width = weight.size(-1), high = rows ? block : height,
                     wide = rows ? width : block;
  const Tensor blocks = weight.reshape({-1, height / high, high, width / wide, wide});
  return {scores_of(blocks, {2, 4}),
          [name, shape = weight.sizes().vec(), size = blocks.sizes().vec()](const Tensor& stays, Masks& masks) {
            masks[name] = stays.reshape({size[0], size[1], 1, size[3], 1}).expand(size).contiguous().reshape(shape);
          }};
}

Tensor of_rows(const Tensor& stays, const Tensor& like) {
  return stays.unsqueeze(1).expand({-1, like.size(0) / stays.size(0)}).reshape({-1, 1}).expand_as(like).contiguous();
}

// The rows that make a head's queries, and the columns that take what it gives. Of keys and values the rows of those
// heads whose queries are all gone.
Units units_of_heads(const PruneHeads& layer, const std::map<std::string, Tensor>& weights) {
  const Tensor q = weights.at(layer.q), o = weights.at(layer.o);
  const Tensor of_q = q.reshape({layer.heads, -1}).square(), of_o = o.t().reshape({layer.heads, -1}).square();
  return {at::cat({of_q, of_o}, 1).mean(1).sqrt(), [layer, q, o, &weights](const Tensor& stays, Masks& masks) {
            masks[layer.q] = of_rows(stays, q);
            masks[layer.o] = of_rows(stays, o.t()).t().contiguous();
            const Tensor shared = stays.reshape({layer.shared, -1}).any(1);
            for (const std::string& name : {layer.k, layer.v})
              if (!name.empty()) masks[name] = of_rows(shared, weights.at(name));
          }};
}

std::vector<Units> units_of(const std::map<std::string, Tensor>& weights, const PruneHow& how) {
  std::vector<Units> all;
  if (how.by == PruneBy::head) {
    for (const PruneHeads& layer : how.heads) all.push_back(units_of_heads(layer, weights));
    return all;
  }
  for (const auto& [name, weight] : weights)
    all.push_back(how.by == PruneBy::element ? units_of_elements(name, weight)
                                             : units_of_lines(name, weight, how.block, how.by == PruneBy::row));
  return all;
}

// Without the smallest of them.
Tensor staying(const Tensor& scores, double share) {
  const auto gone = static_cast<std::int64_t>(std::nearbyint(share * static_cast<double>(scores.numel())));
  Tensor stays = at::ones({scores.numel()}, scores.options().dtype(at::kBool));
  const Tensor order = at::argsort(scores, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  return stays.index_fill_(0, order.narrow(0, 0, gone), 0);
}

Tensor mask_of_pattern(const Tensor& weight, const PrunePattern& pattern, double share) {
  const auto come_to = static_cast<std::int64_t>(std::floor(share * static_cast<double>(pattern.of) + 1e-9));
  const std::int64_t gone = std::min(pattern.of - pattern.stay, come_to);
  const Tensor groups = weight.abs().reshape({-1, pattern.of});
  Tensor stays = at::ones(groups.sizes(), groups.options().dtype(at::kBool));
  const Tensor order = at::argsort(groups, /*stable=*/true, /*dim=*/1, /*descending=*/false);
  return stays.scatter_(1, order.narrow(1, 0, gone), 0).reshape(weight.sizes());
}

std::int64_t count_in(const config::Node& config, const char* key, std::int64_t otherwise) {
  const config::Node* found = config.find(key);
  return found ? parse_int(found->text()).value_or(otherwise) : otherwise;
}

}  // namespace

std::optional<PrunePattern> parse_pattern(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const auto stay = parse_int(parts[0]), of = parse_int(parts[1]);
  if (!stay || !of || *stay < 1 || *of <= *stay || *of > 1024) return std::nullopt;
  return PrunePattern{*stay, *of};
}

double numel_of(const std::vector<std::int64_t>& shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(size);
  return count;
}

std::vector<PruneHeads> find_heads(const Shapes& shapes, const config::Node& hf_config) {
  const std::int64_t heads = count_in(hf_config, "num_attention_heads", 0);
  const std::int64_t shared = count_in(hf_config, "num_key_value_heads", heads);
  std::vector<PruneHeads> layers;
  for (const auto& [name, shape] : shapes) {
    constexpr std::string_view kQ = "q_proj.weight";
    if (!name.ends_with(kQ)) continue;
    const std::string before = name.substr(0, name.size() - kQ.size());
    const auto named = [&](const char* what) {
      const std::string other = before + what + "_proj.weight";
      return shapes.contains(other) ? other : std::string();
    };
    PruneHeads layer{name, named("k"), named("v"), named("o"), heads, shared};
    if (layer.o.empty())
      throw Error(ErrorKind::config, fmt::format("callback pruning: by head: {}o_proj.weight is not among the weights "
                                                 "that match; a head is pruned in both",
                                                 before));
    layers.push_back(std::move(layer));
  }
  if (layers.empty() || heads == 0)
    throw Error(ErrorKind::config, "callback pruning: by head: no q_proj.weight is among the weights that match")
        .hint("models whose attention has other names can be pruned by row and column, with block: the head's size");
  return layers;
}

std::map<std::string, Tensor> make_masks(const std::map<std::string, Tensor>& weights, const PruneHow& how,
                                         double share) {
  const c10::NoGradGuard no_grad;
  Masks masks;
  if (how.by == PruneBy::pattern) {
    for (const auto& [name, weight] : weights) masks[name] = mask_of_pattern(weight, how.pattern.value(), share);
    return masks;
  }
  const std::vector<Units> all = units_of(weights, how);
  if (how.scope == PruneScope::weight) {
    for (const Units& units : all) units.to_masks(staying(units.scores, share), masks);
    return masks;
  }
  std::vector<Tensor> scores;
  for (const Units& units : all) scores.push_back(units.scores);
  const Tensor stays = staying(at::cat(scores), share);
  std::int64_t at = 0;
  for (const Units& units : all) {
    units.to_masks(stays.narrow(0, at, units.scores.numel()), masks);
    at += units.scores.numel();
  }
  return masks;
}

void clear(Tensor& value, const Tensor& mask) {
  const c10::NoGradGuard no_grad;
  value.masked_fill_(mask.to(value.device()).logical_not(), 0);
}

double count_zeros(const Tensor& mask) { return static_cast<double>(mask.numel()) - host::number(mask.sum()); }

}  // namespace hone::callbacks
