// Adapters on a model: LoRA (Hu et al., 2021, arXiv:2106.09685) put on, folded into the weights, and taken off again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"

namespace hone {

// With PEFT's meanings; PEFT's own names differ where they are short: r, lora_alpha, target_modules.
struct LoraConfig {
  std::int64_t rank = 16;
  std::optional<double> alpha;
  double dropout = 0;
  bool rslora = false, dora = false;
  std::string init = "default";
  std::vector<std::string> targets = {"all-linear"}, exclude, modules_to_save, trainable_token_indices;
  std::map<std::string, std::int64_t> rank_pattern;
  std::map<std::string, double> alpha_pattern;
  double loraplus_lr_ratio = 1;
  std::optional<double> loraplus_lr_embedding;
  static constexpr auto fields() {
    using C = LoraConfig;
    constexpr OnResume fixed = OnResume::fixed;
    return std::tuple{
        field("rank", &C::rank, "Size of the two factors that are learnt: more can learn more and costs more.",
              at_least(1), fixed),
        field("alpha", &C::alpha,
              "What is learnt is multiplied with alpha / rank (rslora: by the root of rank); default: twice the rank.",
              {.low = 1e-6}, fixed),
        field("dropout", &C::dropout, "Share of what goes into the factors that is dropped in training.",
              {.low = 0, .high = 0.999}),
        field("rslora", &C::rslora, "Divide alpha by the root of the rank, for large ranks (arXiv:2312.03732).", fixed),
        field("dora", &C::dora, "Learn the size of each output apart from its direction (arXiv:2402.09353).", fixed),
        field("init", &C::init,
              "How the factors begin: default (PEFT's), gaussian, orthogonal (neither is zero, their product is), "
              "pissa (the weights' largest singular values, arXiv:2404.02948), pissa_niter_N for a fast estimate of "
              "these with N iterations, or olora (the weights' orthogonal columns, arXiv:2406.01775).",
              fixed),
        field("targets", &C::targets,
              "What gets an adapter: all-linear (all but the head, routers and experts), ends of module names such as "
              "q_proj, or regular expressions of whole names.",
              fixed),
        field("exclude", &C::exclude, "Ends of module names, or regular expressions, that get none all the same.",
              fixed),
        field("modules_to_save", &C::modules_to_save,
              "Modules that are trained whole and saved with the adapter, such as lm_head or embed_tokens: all whose "
              "names end so, as in PEFT. A classification head always is.",
              fixed),
        field("trainable_token_indices", &C::trainable_token_indices,
              "Tokens, by number or text, whose rows of the table of embeddings are trained: for the head, too, where "
              "it is tied to the table.",
              fixed),
        field("rank_pattern", &C::rank_pattern,
              "Other ranks for some modules, by the end of the name or an expression; of several that fit, the first "
              "in alphabetical order.",
              fixed),
        field("alpha_pattern", &C::alpha_pattern, "Other values of alpha, likewise.", fixed),
        field("loraplus_lr_ratio", &C::loraplus_lr_ratio,
              "How many times the learning rate of the first factor the second one has (LoRA+, arXiv:2402.12354).",
              {.low = 1e-6}, OnResume::record),
        field("loraplus_lr_embedding", &C::loraplus_lr_embedding,
              "Learning rate of the factors of tables, which follow the schedule with it; default: as of others.",
              {.low = 0}, OnResume::record)};
  }
  HONE_API void validate(Problems& problems) const;
  double scale(std::int64_t rank, double alpha) const;  // what B (A x) is multiplied with
};

// What is put where.
struct LoraReport {
  std::vector<std::string> adapted, saved;  // modules; those that are trained whole
  std::int64_t parameters = 0;              // of the adapter
};

// What apply_lora() will do, and whether it can; the weights need not be filled. Freezes all but modules_to_save.
HONE_API LoraReport plan_lora(Model& model, const LoraConfig& config);

// Freezes the model's weights but for modules_to_save, and puts a fresh adapter on each of the targets: a function of
// (seed, name). What B and A make is zero at first. REQUIRES: the weights are filled. Throws Error(config): a target
// that there is not, a rank above the size of a weight.
HONE_API LoraReport apply_lora(Model& model, const LoraConfig& config, std::uint64_t seed,
                               const std::string& name = kDefaultAdapter);

// Calls visit(module, its weight, adapter) for each weight that has one of that name, in the model's order.
HONE_API void each_adapter(Model& model, const std::string& name,
                           const std::function<void(const std::string&, Weight&, Adapter&)>& visit);
// The adapter's own weights by their names in the model ("model.layers.0.self_attn.q_proj.lora_A.weight").
HONE_API std::map<std::string, Tensor> split_adapter(Model& model, const std::string& name = kDefaultAdapter);

// Folds the adapter into the weights that it sits on; it stays there, and must not be added once more: passes through
// the model take adapter "". unmerge() brings the weights back bit for bit, as it keeps them. Throws Error(config) for
// a table that the head uses, too.
class HONE_API MergedAdapter {
 public:
  explicit MergedAdapter(Model& model, const std::string& name = kDefaultAdapter);
  void unmerge();

 private:
  std::vector<std::pair<Weight*, Tensor>> before_;
};

// Folds it in for good, and takes it off.
HONE_API void unwrap_adapter(Model& model, const std::string& name = kDefaultAdapter);
// Takes it off, as if it had never been there.
HONE_API void remove_adapter(Model& model, const std::string& name = kDefaultAdapter);

}  // namespace hone
