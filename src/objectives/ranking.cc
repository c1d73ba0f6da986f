// Cross-encoders that learn from lists: a score for each of a query's texts, by which the best ones stand first.
//
// Letters: Q queries, N texts of a query.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "nn/pair_scores.h"
#include "objectives/drawn_texts.h"
#include "objectives/list_losses.h"
#include "objectives/means.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

class Ranking final : public Objective {
 public:
  struct Config {
    ListLoss loss_type = ListLoss::lambda;
    WeightingScheme weighting_scheme = WeightingScheme::ndcg_loss2pp;
    double mu = 10, sigma = 1, alpha = 1, scale = 10;
    std::optional<std::int64_t> num_negatives = 4, max_pair_length;
    ScoreActivation activation_fn = ScoreActivation::sigmoid;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("loss_type", &C::loss_type,
                "rank_net: of two texts of a query the better one is to have the higher score; lambda: the same, each "
                "two by what their order is worth to NDCG; list_net: how likely each text is the best is to be as the "
                "scores of the data have it; list_mle, plist_mle: the whole order is to be likely, of plist_mle the "
                "first places more; adr_mse: each text's place is to be its own; margin_mse: the margins of the first "
                "text over the others are to be those of the data, as a teacher gave them; "
                "multiple_negatives_ranking: the positive is to be likelier than the negatives and some texts of "
                "other records of the step."),
          field("weighting_scheme", &C::weighting_scheme,
                "Of lambda: what an order is worth: ndcg_loss2, lambda_rank, mu times the one and the other "
                "(ndcg_loss2pp), or ndcg_loss1, of all pairs."),
          field("mu", &C::mu, "Of ndcg_loss2pp: how much ndcg_loss2 counts beside lambda_rank; 0 leaves it out.",
                at_least(0)),
          field("sigma", &C::sigma,
                "Of rank_net and lambda: differences of scores are multiplied by it; large values ask for smaller "
                "ones.",
                {.low = 1e-6}),
          field("alpha", &C::alpha,
                "Of adr_mse: differences of scores are multiplied by it; large values make places steps.",
                {.low = 1e-6}),
          field("num_negatives", &C::num_negatives,
                "Of multiple_negatives_ranking: how many texts of other records each query is given, drawn anew in "
                "each step; null: all of the step's, which are then read with each query.",
                at_least(1)),
          field("scale", &C::scale,
                "Of multiple_negatives_ranking: scores are multiplied by it; large values let the highest count alone.",
                {.low = 1e-6}),
          field("activation_fn", &C::activation_fn,
                "Of multiple_negatives_ranking: what becomes of scores before: sigmoid, or nothing (identity)."),
          field("max_pair_length", &C::max_pair_length,
                "Of multiple_negatives_ranking: tokens that a query has with a text at most, the longer of which is "
                "cut first; default: data.max_length.",
                at_least(4))};
    }
    void validate(Problems& problems) const {
      const Config usual;
      const bool is_lambda = loss_type == ListLoss::lambda;
      problems.require(is_lambda || weighting_scheme == usual.weighting_scheme, "weighting_scheme",
                       "only with loss_type lambda");
      problems.require((is_lambda && weighting_scheme == WeightingScheme::ndcg_loss2pp) || mu == usual.mu, "mu",
                       "only with loss_type lambda and weighting_scheme ndcg_loss2pp");
      problems.require(is_lambda || loss_type == ListLoss::rank_net || sigma == usual.sigma, "sigma",
                       "only with loss_type lambda or rank_net");
      problems.require(loss_type == ListLoss::adr_mse || alpha == usual.alpha, "alpha", "only with loss_type adr_mse");
      const bool draws = loss_type == ListLoss::multiple_negatives_ranking;
      const auto only_drawn = [&](bool is_usual, const char* option) {
        problems.require(draws || is_usual, option, "only with loss_type multiple_negatives_ranking");
      };
      only_drawn(num_negatives == usual.num_negatives, "num_negatives");
      only_drawn(scale == usual.scale, "scale");
      only_drawn(activation_fn == usual.activation_fn, "activation_fn");
      only_drawn(!max_pair_length, "max_pair_length");
    }
  };
  explicit Ranking(const Config& config) : config_(config) {}

  Needs needs() const override {
    Needs needs{.records = draws() ? RecordKind::embedding : RecordKind::ranked, .labels = {"LABEL_0"}};
    needs.compares_records = draws();
    if (draws()) needs.draws_texts = {.most = config_.num_negatives, .max_length = config_.max_pair_length};
    return needs;
  }
  void check(const Model& model) const override { nn::require_score(model, "objective ranking"); }
  std::vector<std::string> evaluations() const override { return {"ranking"}; }
  std::optional<std::vector<std::string>> measures() const override { return std::vector<std::string>{"accuracy"}; }
  Sums sums(const Batch& batch) const override { return {{counted_in(settings()), count_in(batch, settings())}}; }

  Groups prepare(Group group, StepContext& context) override {
    for (const Batch& batch : group) draws() ? check_pairs(batch, context) : check_lists(batch, context);
    if (!draws()) return {std::move(group)};
    std::vector<QueryTexts> own;
    std::vector<std::vector<QueryTexts>> of_batches;
    for (const Batch& batch : group) {
      of_batches.push_back(texts_of_records(batch));
      own.insert(own.end(), of_batches.back().begin(), of_batches.back().end());
    }
    const std::vector<QueryTexts> step = all_of_step(own, context.world);
    for (std::size_t i = 0; i < group.size(); ++i)
      group[i] = with_drawn_texts(of_batches[i], step, drawing(context, std::to_string(context.step)));
    return {std::move(group)};
  }
  Batch prepare_evaluation(Batch batch, StepContext& context) override {
    draws() ? check_pairs(batch, context) : check_lists(batch, context);
    if (!draws() || !context.tokenizer) return batch;  // records are looked at before there is a run
    const std::vector<QueryTexts> own = texts_of_records(batch);
    return with_drawn_texts(own, own, drawing(context, "evaluation"));
  }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const nn::TextLists lists = nn::text_lists(model, output, batch, pass);
    LossTerms result;
    result.terms.push_back({"loss", sum_of_list_losses(lists, settings()), counted_in(settings())});
    const c10::NoGradGuard no_grad;
    const Tensor none_QN = lists.there_QN.logical_not();
    const auto shown = [&](const Tensor& values_QN) { return values_QN.detach().masked_fill(none_QN, -1e30); };
    const Tensor worth_QN = shown(lists.worth_QN), best_Q1 = std::get<0>(worth_QN.max(1, /*keepdim=*/true));
    const Tensor first_Q1 = shown(lists.score_QN).argmax(1, /*keepdim=*/true);
    const Tensor worst_Q = std::get<0>(lists.worth_QN.detach().masked_fill(none_QN, 1e30).min(1));
    const Tensor differ_Q = best_Q1.squeeze(1).gt(worst_Q);
    const Tensor right_Q = worth_QN.gather(1, first_Q1).eq(best_Q1).squeeze(1).logical_and(differ_Q);
    add_masked_mean("accuracy", right_Q.to(at::kDouble), differ_Q.to(at::kDouble), result);
    return result;
  }

 private:
  bool draws() const { return config_.loss_type == ListLoss::multiple_negatives_ranking; }
  ListLossSettings settings() const {
    return {config_.loss_type, config_.weighting_scheme, config_.mu,           config_.sigma,
            config_.alpha,     config_.scale,            config_.activation_fn};
  }
  Drawing drawing(const StepContext& context, std::string when) const {
    return {.most = config_.num_negatives,
            .seed = context.seed,
            .when = std::move(when),
            .tokenizer = *context.tokenizer,
            .max_length = config_.max_pair_length.value_or(context.max_length)};
  }

  // Likewise, where the texts of other records are the negatives.
  void check_pairs(const Batch& batch, const StepContext& context) const {
    const auto scores = batch.extra.find("score"), classes = batch.extra.find("class");
    for (std::size_t i = 0; i < batch.docs.size(); ++i) {
      const bool labelled = classes != batch.extra.end() && host::values<std::int64_t>(classes->second)[i] != 0;
      const bool scored = scores != batch.extra.end() && host::values<double>(scores->second)[2 * i + 1] != 0;
      if (!labelled && !scored) continue;
      Error error(ErrorKind::data, fmt::format("{}: has a {}, which is not learnt; objective.loss_type is "
                                               "multiple_negatives_ranking",
                                               context.record_name(batch.docs[i].record),
                                               labelled ? "label" : "score"));
      throw std::move(error).hint(labelled ? "it learns records of query and positive"
                                           : "other losses learn the scores of a list; ignore: [score] passes over it");
    }
  }

  // While the batch lies in host memory. Error(data): records that are not of this loss.
  void check_lists(const Batch& batch, const StepContext& context) const {
    if (!batch.ids_BT.is_cpu()) return;
    const auto found = batch.extra.find("score");
    const Tensor scores = found == batch.extra.end() ? Tensor() : found->second;
    for (const std::vector<std::int64_t>& texts : nn::texts_of_queries(batch)) {
      const std::string name = context.record_name(batch.docs[static_cast<std::size_t>(texts[0])].record);
      if (texts.size() < 2)
        throw Error(ErrorKind::data, name + ": a query with one text; expected several, of which some are better")
            .hint("objective: classification with problem_type: regression learns a number of each pair");
      const auto at = static_cast<std::size_t>(2 * texts[0] + 1);
      const bool scored = scores.defined() && host::values<double>(scores)[at] != 0;
      if (scored && config_.loss_type == ListLoss::lambda) check_gains(texts, scores, name);
      if (!scored && config_.loss_type == ListLoss::margin_mse)
        throw Error(ErrorKind::data, name + ": has no scores; objective.loss_type is margin_mse")
            .hint("a teacher's are in the field scores, one for each of a query's texts; others learn that the "
                  "positive is the best");
    }
  }

  // What a text is worth there is two to the power of its score, less one, and scores below zero are zero. Texts that
  // are all worth the same have nothing to learn, and are no fault.
  static void check_gains(const std::vector<std::int64_t>& texts, const Tensor& scores, const std::string& name) {
    std::vector<double> all;
    for (const std::int64_t text : texts)
      all.push_back(host::values<double>(scores)[static_cast<std::size_t>(2 * text)]);
    const auto [least, most] = std::ranges::minmax(all);
    if (most <= nn::kMostGainScore && (most > 0 || least == most)) return;
    throw Error(ErrorKind::data,
                fmt::format("{}: its highest score is {}; expected one above 0, and at most {}, with "
                            "objective.loss_type lambda, where a text is worth two to the power of its score, less one",
                            name, most > 0 ? fmt::format("{}", most) : "not above 0", nn::kMostGainScore))
        .hint("rank_net, list_net and plist_mle take any scores, and so margins");
  }

  Config config_;
};

}  // namespace

void register_ranking(Registries& hone) {
  hone.objectives.add<Ranking>("ranking", "Give each of a query's texts a score, the best ones the highest.");
}

}  // namespace hone::objectives
