// Sparse encoders: texts become weights of the vocabulary's tokens, of which few are above 0 (SPLADE: Formal et al.,
// 2021, arXiv:2107.05720; with the FLOPS regularizer of Paria et al., 2020, arXiv:2004.05665).
//
// Letters: S documents, V vocabulary, P pairs.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hub/sentence_files.h"
#include "nn/splade.h"
#include "objectives/embedding_losses.h"
#include "objectives/ranking_options.h"
#include "objectives/sparse_neighbours.h"
#include "objectives/text_objective.h"

namespace hone {
namespace objectives {
namespace {
enum class RegularizerSchedule { linear, quadratic };
}  // namespace
}  // namespace objectives

template <>
inline constexpr auto config::enum_names<objectives::RegularizerSchedule> =
    std::to_array<std::pair<objectives::RegularizerSchedule, std::string_view>>(
        {{objectives::RegularizerSchedule::linear, "linear"},
         {objectives::RegularizerSchedule::quadratic, "quadratic"}});

namespace objectives {
namespace {

constexpr double kDotTemperature = 1, kSparseTaughtTemperature = 2, kCosineTemperature = 0.05;
constexpr double kSparseMargin = 5, kQueryWeight = 5e-5;
constexpr const char* kDocumentTerm = "document_regularizer_loss";
constexpr const char* kQueryTerm = "query_regularizer_loss";
constexpr const char* kBase = "base_loss";

// How many products a search would make with these texts' weights, up to a factor: the sum over tokens of the squared
// mean weight. threshold: texts with no more weights above 0 are left as they are.
Tensor flops_of(const Tensor& texts_SV, std::optional<std::int64_t> threshold) {
  Tensor rows = texts_SV;
  if (threshold) rows = rows * texts_SV.ne(0).sum(1, /*keepdim=*/true).gt(*threshold).to(rows.scalar_type());
  return rows.mean(0).square().sum();
}

class SparseEmbedding final : public TextObjective {
 public:
  struct Config {
    EmbeddingLoss loss_type = EmbeddingLoss::multiple_negatives_ranking;
    std::optional<double> temperature, teacher_temperature, margin;
    Distance distance = Distance::euclidean;
    std::vector<Direction> directions = {Direction::query_to_doc};
    PartitionMode partition_mode = PartitionMode::joint;
    std::optional<HardnessMode> hardness_mode;
    double hardness_strength = 0;
    double document_regularizer_weight = 3e-5;
    std::optional<double> query_regularizer_weight;
    std::optional<std::int64_t> document_regularizer_threshold, query_regularizer_threshold;
    bool use_document_regularizer_only = false;
    std::int64_t regularizer_warmup_steps = 0;
    RegularizerSchedule regularizer_schedule = RegularizerSchedule::quadratic;
    std::optional<nn::SpladeStrategy> pooling_strategy;
    std::optional<nn::SpladeActivation> activation_function;
    std::optional<std::string> query_prompt, document_prompt;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
          field("loss_type", &C::loss_type,
                "multiple_negatives_ranking: a query's dot product with its own document is to be above those with all "
                "others of the step (InfoNCE); triplet: nearer than its negatives, by margin; cosent, angle, "
                "cosine_similarity: of pairs with a score, whose order or values the cosines are to have; margin_mse, "
                "distill_kl_div: of queries whose texts have scores of a teacher, whose margins or likelihoods the dot "
                "products are to have. gist and the batch_ losses are of dense vectors alone."),
          field("temperature", &C::temperature,
                "Of multiple_negatives_ranking and distill_kl_div: dot products are divided by it, default 1, and 2; "
                "of cosent and angle: cosines, default 0.05.",
                {.low = 1e-6}),
          field("teacher_temperature", &C::teacher_temperature, kTeacherTemperature, {.low = 1e-6}),
          field("margin", &C::margin, "Of triplet: by so much a negative is to be farther away; default 5.",
                at_least(0)),
          field("distance", &C::distance, "Of triplet: what near and far are measured by.")},
          ranking_fields<C>(),
          std::tuple{
          field("hardness_strength", &C::hardness_strength,
                "With hardness_mode: so many times their dot product negatives have more; 0 is none.", at_least(0)),
          field("document_regularizer_weight", &C::document_regularizer_weight,
                "So many times the FLOPS of the step's documents are added to the loss: the more, the fewer weights "
                "are above 0; 0 adds nothing.",
                at_least(0)),
          field("query_regularizer_weight", &C::query_regularizer_weight,
                "The same of queries; default: 5e-5, and nothing with use_document_regularizer_only.", at_least(0)),
          field("document_regularizer_threshold", &C::document_regularizer_threshold,
                "Documents with no more weights above 0 do not count in their FLOPS.", at_least(0)),
          field("query_regularizer_threshold", &C::query_regularizer_threshold, "The same of queries.", at_least(0)),
          field("use_document_regularizer_only", &C::use_document_regularizer_only,
                "Queries are documents to the regularizer, as where both are of one kind."),
          field("regularizer_warmup_steps", &C::regularizer_warmup_steps,
                "So many steps long the regularizers' weights rise from 0.", at_least(0)),
          field("regularizer_schedule", &C::regularizer_schedule,
                "How they rise: with the share of these steps that is done, or with its square."),
          field("pooling_strategy", &C::pooling_strategy,
                "Whether the largest (max) or all (sum) of a text's tokens count for a token of the vocabulary; "
                "default: as the model's folder says (SpladePooling), else max."),
          field("activation_function", &C::activation_function,
                "What becomes of a logit: relu: log(1 + relu(x)); log1p_relu: the logarithm of 1 + that; default: as "
                "the folder says, else relu.")},
          prompt_fields<C>());
    }
    void validate(Problems& problems) const {
      const Config usual;
      const bool is_triplet = loss_type == EmbeddingLoss::triplet, alone = use_document_regularizer_only;
      const bool dense = loss_type == EmbeddingLoss::gist || learns_labels(loss_type);
      problems.require(!dense, "loss_type",
                       fmt::format("got {}, which is of dense vectors; expected one of the others",
                                   config::Values<EmbeddingLoss>::write(loss_type).text()));
      problems.require(is_triplet || !margin, "margin", "only with loss_type triplet");
      problems.require(is_triplet || distance == usual.distance, "distance", "only with loss_type triplet");
      problems.require(has_temperature(loss_type) || !temperature, "temperature",
                       "only with loss_type multiple_negatives_ranking, cosent, angle or distill_kl_div");
      problems.require(loss_type == EmbeddingLoss::distill_kl_div || !teacher_temperature, "teacher_temperature",
                       "only with loss_type distill_kl_div");
      problems.require(!alone || !query_regularizer_weight, "query_regularizer_weight",
                       "not with use_document_regularizer_only, by which queries count as documents");
      problems.require(!alone || !query_regularizer_threshold, "query_regularizer_threshold",
                       "not with use_document_regularizer_only, by which queries count as documents");
      problems.require(regularizer_warmup_steps > 0 || regularizer_schedule == usual.regularizer_schedule,
                       "regularizer_schedule", "only with regularizer_warmup_steps");
      check_ranking(loss_type, {directions, partition_mode, hardness_mode, hardness_strength}, problems);
    }
  };
  explicit SparseEmbedding(Config config) : config_(std::move(config)) {}

  Needs needs() const override {
    Needs needs{.records = RecordKind::embedding};
    needs.compares_records = compares_pairs(config_.loss_type);
    needs.masked_lm = true;
    needs.query_prompt = config_.query_prompt.value_or("");
    needs.document_prompt = config_.document_prompt.value_or("");
    return needs;
  }
  void check(const Model& model) const override { require_masked_lm(model, "objective sparse_embedding"); }
  std::optional<std::vector<std::string>> measures() const override {
    std::vector<std::string> names{kBase, kDocumentTerm};
    if (!config_.use_document_regularizer_only) names.emplace_back(kQueryTerm);
    if (!learns_scores(config_.loss_type)) names.emplace_back("accuracy");
    return names;
  }
  std::vector<std::shared_ptr<const Evaluation>> further_evaluations() const override {
    const bool by_score = learns_scores(config_.loss_type);
    return {make_sparse_neighbours(form(), by_score ? Neighbours::by_score : Neighbours::of_queries,
                                   {.dot = !by_score})};
  }
  std::map<std::string, std::string> folder_files(const Model& model, std::int64_t max_length) const override {
    hub::SentenceFolder folder;
    folder.splade = form();
    folder.similarity = learns_scores(config_.loss_type) ? "cosine" : "dot";
    folder.max_length = max_length;
    folder.prompts = {{"document", config_.document_prompt.value_or("")}, {"query", config_.query_prompt.value_or("")}};
    return hub::sentence_files(folder, model.vocab_size());
  }

  Groups prepare(Group group, StepContext& context) override {
    set_share(context.step);
    return TextObjective::prepare(std::move(group), context);
  }
  Batch prepare_evaluation(Batch batch, StepContext& context) override {
    set_share(context.step);
    return TextObjective::prepare_evaluation(std::move(batch), context);
  }

 private:
  EmbeddingLoss loss_type() const override { return config_.loss_type; }
  bool is_joint() const override { return true; }  // a regularizer is of all texts of a step
  nn::SpladeForm form() const {
    return {config_.pooling_strategy.value_or(nn::SpladeStrategy::max),
            config_.activation_function.value_or(nn::SpladeActivation::relu)};
  }
  EmbeddingLossSettings settings() const {
    EmbeddingLossSettings settings;
    settings.type = config_.loss_type, settings.dot = true, settings.unit_length = false;
    const bool of_teacher = config_.loss_type == EmbeddingLoss::distill_kl_div;
    settings.temperature = config_.temperature.value_or(learns_scores(config_.loss_type) ? kCosineTemperature
                                                        : of_teacher                     ? kSparseTaughtTemperature
                                                                                         : kDotTemperature);
    settings.teacher_temperature = config_.teacher_temperature.value_or(settings.temperature);
    settings.margin = config_.margin.value_or(kSparseMargin), settings.distance = config_.distance;
    settings.directions = config_.directions, settings.partition_mode = config_.partition_mode;
    settings.hardness_mode = config_.hardness_mode, settings.hardness_strength = config_.hardness_strength;
    return settings;
  }

  // How much of the regularizers' weights there is in this step.
  void set_share(std::int64_t step) {
    share_ = 1;
    if (step >= config_.regularizer_warmup_steps) return;
    share_ = static_cast<double>(step) / static_cast<double>(config_.regularizer_warmup_steps);
    if (config_.regularizer_schedule == RegularizerSchedule::quadratic) share_ *= share_;
  }

  Tensor vectors(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    return nn::splade(model, output, batch, form(), pass);
  }

  TextLosses losses(const EmbeddedTexts& texts, const Model&) const override {
    const Tensor base = losses_of(texts, settings(), 0);
    std::vector<Tensor> documents{texts.document_PD, texts.other_OD};
    if (config_.use_document_regularizer_only) documents.push_back(texts.query_PD);
    TextLosses made{base, {{kBase, base.detach()}}};
    const auto add = [&](const char* name, double weight, const Tensor& flops) {
      const Tensor term = share_ * weight * flops;  // of the step: each pair has it, so that their mean is it
      made.loss = made.loss + term;
      made.means[name] = term.detach().expand({base.size(0)});
    };
    add(kDocumentTerm, config_.document_regularizer_weight,
        flops_of(at::cat(documents), config_.document_regularizer_threshold));
    if (!config_.use_document_regularizer_only)
      add(kQueryTerm, config_.query_regularizer_weight.value_or(kQueryWeight),
          flops_of(texts.query_PD, config_.query_regularizer_threshold));
    const c10::NoGradGuard no_grad;
    if (const Tensor right = right_ones(texts, settings()); right.defined()) made.means["accuracy"] = right;
    return made;
  }

  Config config_;
  double share_ = 1;
};

}  // namespace

void register_sparse_embedding(Registries& hone) {
  hone.objectives.add<SparseEmbedding>(
      "sparse_embedding", "Texts become weights of few tokens of the vocabulary, near those of what they are like.");
}

}  // namespace objectives
}  // namespace hone
