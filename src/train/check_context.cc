// Runs in which several ranks compute a batch together.
#include "train/check_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "nn/context.h"
#include "train/check_tensor.h"
#include "train/context.h"
#include "train/make_objective.h"

namespace hone::training {
namespace {

// Of parallel.context or parallel.tensor: what is said of models.
struct How {
  bool sliced = false;  // the weights are
  const char* option() const { return sliced ? "parallel.tensor" : "parallel.context"; }
  bool is_taken_by(const Model& model) const { return sliced ? model.takes_tensor() : model.takes_context(); }
  const char* instead() const {
    return sliced ? "parallel.fsdp: -1 shares the weights of any model out, and gathers them block by block"
                  : "parallel.context: 1 gives each rank micro-batches of its own";
  }
};

// Heads of layers: each number, and whether several ranks may have the same ones.
struct Heads {
  std::int64_t count = 0;
  bool shared = false;
};

// Heads of keys, or groups, that a memory's heads share: a convolution reads these heads' values, and a key and a query
// (B and C) of each group. Where there is none, each head has its own.
std::int64_t groups_of(const MemoryLayer& layer) {
  if (layer.heads == 0 || layer.convolved == 0) return 0;
  return (layer.convolved - layer.heads * layer.value_size) / (2 * layer.key_size);
}

std::vector<Heads> heads_of(const Model& model) {
  std::vector<Heads> all;
  const auto add_memory = [&](const MemoryLayer& layer) {
    all.insert(all.end(), {{layer.heads}, {groups_of(layer), true}, {layer.convolved}});
  };
  for (const AttentionLayer& layer : model.attention()) all.push_back({layer.heads});
  for (const MemoryLayer& layer : model.memories()) add_memory(layer);
  if (const CausalLm* lm = model.causal_lm())
    for (const CacheSpec::Layer& layer : lm->cache_spec().layers) {
      all.push_back({layer.kv_heads, true});
      add_memory(layer.memory);
    }
  std::erase_if(all, [](const Heads& one) { return one.count == 0; });
  return all;
}

// And what ranks have of the keys' weights where they share heads: as many rows each.
std::vector<Heads> with_parts_of_keys(const Model& model) {
  std::vector<Heads> all = heads_of(model);
  if (const CausalLm* lm = model.causal_lm())
    for (const CacheSpec::Layer& layer : lm->cache_spec().layers) all.push_back({layer.kv_heads * layer.head_size});
  return all;
}

bool fits(const std::vector<Heads>& all, std::int64_t ranks) {
  return std::all_of(all.begin(), all.end(), [&](const Heads& one) {
    return one.count % ranks == 0 || (one.shared && nn::can_share_heads(one.count, ranks));
  });
}

// Those that do not fit.
std::string text_of(const std::vector<Heads>& all, std::int64_t ranks) {
  std::vector<std::string> counts;
  for (const Heads& one : all)
    if (const std::string count = std::to_string(one.count);
        !fits({one}, ranks) && std::ranges::find(counts, count) == counts.end())
      counts.push_back(count);
  return join(counts, " and ");
}

std::string numbers_that_fit(const std::vector<Heads>& all) {
  std::int64_t most = 1;
  for (const Heads& one : all)
    if (!one.shared) most = std::max(most, one.count);
  std::vector<std::string> numbers;
  for (std::int64_t ranks = 1; ranks <= most; ++ranks)
    if (fits(all, ranks)) numbers.push_back(std::to_string(ranks));
  return join(numbers, ", ");
}

void check_model(const Model& model, std::int64_t context, How how, const std::string& who) {
  if (!how.is_taken_by(model) || model.pictures())
    throw Error(ErrorKind::config,
                fmt::format("{}{}: ranks cannot compute {} together by a model of type {}", who, how.option(),
                            how.sliced ? "layers" : "a batch", model.hf_config().find("model_type")->text()))
        .hint(how.instead());
  const std::vector<Heads> all = how.sliced ? with_parts_of_keys(model) : heads_of(model);
  if (fits(all, context)) return;
  throw Error(ErrorKind::config,
              fmt::format("{}{}: got {} ranks, among which {} heads or channels cannot be shared evenly; "
                          "numbers that fit: {}",
                          who, how.option(), context, text_of(all, context), numbers_that_fit(all)));
}

// "bert": what the names of all but the head begin with.
std::string body_of(const Model& model) {
  std::string body;
  std::set<const Weight*> of_block;
  model.blocks().front()->each_weight([&](const std::string&, const Weight& weight) { of_block.insert(&weight); });
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (of_block.contains(&weight)) body = name.substr(0, name.find('.'));
  });
  return body;
}

// Modules that see the tokens with labels alone: an untied head, and all that a head for masked tokens consists of.
std::function<bool(const std::string&)> within_head(const Model& model) {
  if (model.masked_lm())
    return [body = body_of(model) + "."](const std::string& module) { return !module.starts_with(body); };
  std::string head;
  if (const CausalLm* lm = model.causal_lm(); lm && !lm->head().tied())
    model.each_weight([&](const std::string& name, const Weight& weight) {
      if (lm->head().is_weight(weight)) head = name.substr(0, name.rfind('.'));
    });
  return [head](const std::string& module) { return module == head; };
}

// Dropout goes by a token's place among all; there a token's place is another one.
void check_dropout(const Model& model, double dropout, const std::vector<std::string>& adapted) {
  if (dropout == 0) return;
  const auto is_of_head = within_head(model);
  for (const std::string& module : adapted)
    if (is_of_head(module) || module.find(".experts.") != std::string::npos)
      throw Error(ErrorKind::config,
                  fmt::format("adapter.dropout: got {}, expected 0 with parallel.context for {}, which sees some of "
                              "the tokens alone",
                              dropout, module))
          .hint("adapter.exclude leaves it out");
}

}  // namespace

void check_context(const Recipe& recipe, int ranks) {
  const std::int64_t context = recipe.parallel.context;
  if (ranks == 1 || context == 1) return;
  if (context != -1 && (context < 1 || ranks % context != 0))
    throw Error(ErrorKind::config,
                fmt::format("parallel.context: got {}, expected a number that divides the {} ranks: {}, or -1 for all",
                            context, ranks, numbers_that_fit({{ranks}})));
  if (!make_objective(recipe)->takes_context())
    throw Error(ErrorKind::config,
                fmt::format("objective {}: not with parallel.context: it learns from whole documents",
                            recipe.objective.type))
        .hint("causal_lm, masked_lm and distillation of given texts learn token by token; parallel.context: 1 gives "
              "each rank micro-batches of its own");
}

void check_context_models(const Recipe& recipe, int ranks, const ContextUse& use) {
  const int context = context_of(recipe, ranks);
  if (context == 1) return;
  const How how{slices_of(recipe, ranks) > 1};
  check_model(use.model, context, how, "");
  if (use.adapter && how.sliced) check_sliced_adapter(use.model, *use.adapter, use.adapted);
  if (use.adapter) check_dropout(use.model, use.adapter->dropout, use.adapted);
  for (const auto& [role, where] : make_objective(recipe)->needs().models) {
    if (where.empty()) continue;
    const std::filesystem::path folder = find_model_folder(where);
    const std::string file = (folder / "config.json").string();
    check_model(*build_model(config::read_file(file), file), context, how, fmt::format("objective.{}: ", role));
  }
}

}  // namespace hone::training
