// Kahneman-Tversky Optimization (Ethayarajh et al., 2024, arXiv:2402.01306): answers that are judged one by one become
// likelier or less than with the reference model, seen from how far the model is from it on average.
//
// Letters: S documents, G some of them.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/spans.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "objectives/answer_log_probs.h"
#include "objectives/means.h"
#include "objectives/mismatched.h"
#include "objectives/moving_reference.h"
#include "tensor/host.h"
#include "tensor/pairs.h"

namespace hone {

namespace objectives {
enum class JudgedLoss { kto, apo_zero_unpaired };
}

template <>
inline constexpr auto config::enum_names<objectives::JudgedLoss> =
    std::to_array<std::pair<objectives::JudgedLoss, std::string_view>>(
        {{objectives::JudgedLoss::kto, "kto"}, {objectives::JudgedLoss::apo_zero_unpaired, "apo_zero_unpaired"}});

}  // namespace hone

namespace hone::objectives {
namespace {

constexpr const char *kWho = "objective kto", *kAskedOf = "objective kto: the reference", *kDivergence = "kl",
                     *kAnswers = "answers";

class Kto final : public Objective {
 public:
  struct Config {
    JudgedLoss loss_type = JudgedLoss::kto;
    double beta = 0.1, desirable_weight = 1, undesirable_weight = 1;
    std::string reference;
    bool precompute_reference = false;
    std::int64_t reference_sync_steps = 0;
    double reference_mixup_alpha = kMixupAlpha;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("loss_type", &C::loss_type,
                "kto: rewards are seen from how far the model is from the reference, which prompts with answers of "
                "other records tell; apo_zero_unpaired: seen from the reference itself (arXiv:2408.06266)."),
          field("beta", &C::beta,
                "How strongly answers are held near the reference: small values let the model move far from it.",
                {.low = 1e-6}),
          field("desirable_weight", &C::desirable_weight,
                "Of desirable answers in the loss. Where there are n of them and m others, n x desirable_weight should "
                "be 1 to 1.33 times m x undesirable_weight.",
                at_least(0)),
          field("undesirable_weight", &C::undesirable_weight, "Of the others.", at_least(0)),
          field("reference", &C::reference,
                "Folder of the reference model; default: the model as the run began with it, which below a LoRA "
                "adapter costs no memory."),
          field("precompute_reference", &C::precompute_reference,
                "Ask the reference about all answers before the first step, keep what it says in data.cache, and free "
                "its memory; default: ask it in each step. Only with loss_type apo_zero_unpaired: kto asks it about "
                "prompts and answers that meet in a step."),
          reference_sync_steps_field<C>(),
          reference_mixup_alpha_field<C>()};
    }
    void validate(Problems& problems) const {
      problems.require(desirable_weight > 0 || undesirable_weight > 0, "desirable_weight",
                       "0, as undesirable_weight: nothing is learnt");
      problems.require(!precompute_reference || loss_type != JudgedLoss::kto, "precompute_reference",
                       "only with loss_type apo_zero_unpaired: kto asks the reference about prompts and answers that "
                       "meet in a step");
      check_moving_reference(*this, problems);
      check_moving_and_precomputed(*this, problems);
    }
  };
  explicit Kto(const Config& config) : config_(config) {}

  Needs needs() const override {
    Needs needs{.records = RecordKind::judged};
    needs.models[kReference] = config_.reference;
    needs.models_are_language_models = true;
    needs.models_for_numbers_alone = !is_seen_from_afar();
    if (config_.precompute_reference) needs.numbers_first = "precompute_reference";
    needs.compares_records = is_seen_from_afar();
    follow(config_, kReference, needs.following);
    return needs;
  }
  void check(const Model& model) const override { require_causal_lm(model, kWho); }
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override {
    std::vector<std::string> names = {"rewards/chosen", "rewards/rejected", "logps/chosen", "logps/rejected",
                                      "logits/chosen",  "logits/rejected",  "entropy",      "rewards/margins"};
    if (is_seen_from_afar()) names.push_back(kDivergence);
    return names;
  }

  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override {
    return {{kReferenceLogProbs, answer_log_probs(resources.model(kReference), batch, kAskedOf)}};
  }

  // One estimate for the whole step, however it is cut into micro-batches and ranks.
  Groups prepare(Group group, StepContext& context) override {
    if (is_seen_from_afar()) {
      const spans::Span span("divergence");
      context.world.at(fmt::format("step {}, comparing with the reference", context.step + 1));
      add_divergence(group, context.world.total(apart(group, context, context.world)));
    }
    return {std::move(group)};
  }
  Batch prepare_evaluation(Batch batch, StepContext& context) override {
    if (!is_seen_from_afar()) return batch;
    Group alone{std::move(batch)};
    add_divergence(alone, apart(alone, context, World()));
    return std::move(alone.front());
  }

  void idle_evaluation(StepContext& context) override {
    if (is_seen_from_afar()) idle(context);
  }

  Sums sums(const Batch& batch) const override { return {{kAnswers, static_cast<double>(batch.docs.size())}}; }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const ops::TokenLogProbs tokens =
        model.causal_lm()->head().log_probs(output.hidden_BTD, batch.labels_BT, pass, /*with_statistics=*/true);
    const Tensor log_prob_S = of_documents(tokens, batch), learnt_S = learnt_tokens(batch);
    const Tensor reward_S = config_.beta * (log_prob_S - batch.extra.at(kReferenceLogProbs).to(at::kDouble));
    const Tensor from = config_.beta * divergence_of(batch);
    const Tensor chosen_G = documents_with(Role::chosen, batch), rejected_G = documents_with(Role::rejected, batch);
    LossTerms result;
    const Tensor gained = (1 - (reward_S.index_select(0, chosen_G) - from).sigmoid()).sum(),
                 lost = (1 - (from - reward_S.index_select(0, rejected_G)).sigmoid()).sum();
    result.terms.push_back({"loss", config_.desirable_weight * gained + config_.undesirable_weight * lost, kAnswers});
    if (is_seen_from_afar()) add_mean(kDivergence, divergence_of(batch).unsqueeze(0), result);
    const Tensor logits_S = statistic_S(TokenStatistic::mean_logit, tokens, batch);
    for (const auto& [side, of_G] : {std::pair<std::string, Tensor>{"chosen", chosen_G}, {"rejected", rejected_G}}) {
      add_mean("rewards/" + side, reward_S.detach().index_select(0, of_G), result);
      add_mean("logps/" + side, log_prob_S.detach().index_select(0, of_G), result);
      add_token_mean("logits/" + side, logits_S, learnt_S, of_G, result);
    }
    add_token_mean("entropy", statistic_S(TokenStatistic::entropy, tokens, batch), learnt_S, {}, result);
    return result;
  }

  // The difference of the line's means.
  void derive(Metrics& line) const override {
    for (const std::string mode : {"", "_mean", "_single"}) {
      const auto chosen = line.find("rewards/chosen" + mode), rejected = line.find("rewards/rejected" + mode);
      if (chosen != line.end() && rejected != line.end())
        line["rewards/margins" + mode] = chosen->second - rejected->second;
    }
  }

 private:
  bool is_seen_from_afar() const { return config_.loss_type == JudgedLoss::kto; }

  // What stands before each of this rank's micro-batches where all of the step's are a ring: the last answer of the one
  // before it, so that it does not matter which of them a record is in, or how many ranks there are.
  static std::vector<std::optional<AnswerTokens>> before_each(const Group& group, const World& world,
                                                              std::size_t& passes) {
    std::vector<AnswerTokens> own;
    for (const Batch& batch : group) own.push_back(last_answer(batch));
    std::map<std::size_t, AnswerTokens> all;  // by the micro-batch's number
    const auto ranks = static_cast<std::size_t>(world.size());
    const std::vector<std::string> told = world.gather(to_text(own));
    passes = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<AnswerTokens> theirs = answers_of_text(told[rank]);
      passes = std::max(passes, theirs.size());
      for (std::size_t i = 0; i < theirs.size(); ++i) all[i * ranks + rank] = std::move(theirs[i]);
    }
    std::vector<std::optional<AnswerTokens>> made;
    for (std::size_t i = 0; i < group.size(); ++i) {
      auto at = all.find(i * ranks + static_cast<std::size_t>(world.rank()));
      at = std::prev(at == all.begin() ? all.end() : at);
      made.push_back(all.size() > 1 || has_several_groups(group[i]) ? std::optional(at->second) : std::nullopt);
    }
    return made;
  }

  // Over this rank's micro-batches: how much likelier answers are than with the reference that belong to other prompts,
  // and of how many. Ranks make equally many passes.
  Sums apart(const Group& group, const StepContext& context, const World& world) const {
    const c10::NoGradGuard no_grad;
    const Model& model = context.model;
    Sums found{{kDivergence, 0}, {kAnswers, 0}};
    std::size_t passes = 0;
    const std::vector<std::optional<AnswerTokens>> before = before_each(group, world, passes);
    for (std::size_t i = 0; i < passes; ++i) {
      const auto other = i < group.size() ? mismatched(group[i], before[i], model.max_positions()) : std::nullopt;
      if (!other) {
        idle(context);
        continue;
      }
      const Batch there = other->to(model.device());
      const Tensor apart_S = answer_log_probs({model}, there, kWho) -
                             answer_log_probs(context.resources.model(kReference), there, kAskedOf);
      found[kDivergence] += host::number(apart_S.sum());
      found[kAnswers] += static_cast<double>(there.docs.size());
    }
    return found;
  }

  // The part of a rank that has nothing in a pass of the model and one of the reference. What is below an adapter is
  // whole on each rank.
  static void idle(const StepContext& context) {
    for (const RoleModel& role : {RoleModel{context.model}, context.resources.model(kReference)})
      if (Residency* const residency = role.model.residency(); residency && role.adapter == kDefaultAdapter)
        residency->idle_pass(false);
  }

  void add_divergence(Group& group, const Sums& found) {
    const double answers = found.at(kAnswers);
    if (answers == 0) warnings_.warning("objective kto: a step or batch of one record, whose kl is taken to be 0");
    const double mean = answers > 0 ? std::max(found.at(kDivergence) / answers, 0.0) : 0;  // NaN stays
    for (Batch& batch : group) batch.extra[kDivergence] = host::tensor_of(std::vector<double>{mean}, {});
  }

  // A scalar; a pass that only counts memory has none.
  Tensor divergence_of(const Batch& batch) const {
    const auto found = batch.extra.find(kDivergence);
    if (found != batch.extra.end()) return found->second;
    HONE_ASSERT(!is_seen_from_afar() || batch.ids_BT.is_meta());
    return at::zeros({}, batch.ids_BT.options().dtype(at::kDouble));
  }

  Config config_;
  log::Limiter warnings_;
};

}  // namespace

void register_kto(Registries& hone) {
  hone.objectives.add<Kto>("kto",
                           "Give answers that are judged desirable, and not the others, near a reference model.");
}

}  // namespace hone::objectives
