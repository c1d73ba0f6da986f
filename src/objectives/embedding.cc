// Embedding models: texts become vectors, near those of what they are like or what answers them.
//
// The first numbers of a vector may be made a good vector by themselves (Kusupati et al., 2022, arXiv:2205.13147).
//
// Letters: S documents, D numbers of a vector.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hub/sentence_files.h"
#include "nn/text_embedding.h"
#include "nn/vector_module.h"
#include "objectives/embedding_losses.h"
#include "objectives/guide.h"
#include "objectives/neighbours.h"
#include "objectives/ranking_options.h"
#include "objectives/text_objective.h"

namespace hone::objectives {
namespace {

constexpr double kTemperature = 0.05, kGuidedTemperature = 0.01, kTaughtTemperature = 1, kMargin = 0.2;

class Embedding final : public TextObjective {
 public:
  struct Config {
    EmbeddingLoss loss_type = EmbeddingLoss::multiple_negatives_ranking;
    std::optional<double> temperature, teacher_temperature, margin;
    Distance distance = Distance::cosine;
    std::vector<Direction> directions = {Direction::query_to_doc};
    PartitionMode partition_mode = PartitionMode::joint;
    std::optional<HardnessMode> hardness_mode;
    double hardness_strength = 0;
    std::string guide;
    MarginStrategy margin_strategy = MarginStrategy::absolute;
    bool contrast_anchors = true, contrast_positives = true;
    std::optional<nn::Pooling> pooling;
    std::optional<bool> normalize;
    std::optional<std::string> query_prompt, document_prompt;
    std::vector<std::int64_t> matryoshka_dims;
    std::vector<double> matryoshka_weights;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
          field("loss_type", &C::loss_type,
                "multiple_negatives_ranking: a query's own document is to be nearer than all others of the step "
                "(InfoNCE); gist: than those that a guide does not find right, too; triplet: nearer than its "
                "negatives, by margin; cosent, angle, cosine_similarity: of pairs with a score, whose order or values "
                "the cosines (of angle: cosines and sines) are to have; margin_mse, distill_kl_div: of queries whose "
                "texts have scores of a teacher, whose margins or likelihoods the dot products are to have; "
                "batch_all_triplet, batch_hard_triplet, batch_hard_soft_margin_triplet, batch_semi_hard_triplet: of "
                "texts with a label, nearer to those of the same label than to others of the step, of which all "
                "triplets count, the hardest of each text, or those next beyond."),
          field("temperature", &C::temperature,
                "Of multiple_negatives_ranking, gist, cosent and angle: cosines are divided by it "
                "(sentence-transformers' scale is 1 / temperature); small values let the nearest negatives count "
                "alone; of distill_kl_div: dot products are; default: 0.05, of gist 0.01, of distill_kl_div 1.",
                {.low = 1e-6}),
          field("teacher_temperature", &C::teacher_temperature, kTeacherTemperature, {.low = 1e-6}),
          field("margin", &C::margin,
                "Of triplet and the batch_ losses but the soft one: by so much a negative is to be farther away, "
                "default 0.2; of gist: what the guide finds as near as the right document, but for so much, is no "
                "negative, default 0.",
                at_least(0)),
          field("distance", &C::distance,
                "Of triplet and the batch_ losses: what near and far are measured by.")},
          ranking_fields<C>(),
          std::tuple{
          field("hardness_strength", &C::hardness_strength,
                "With hardness_mode: so many times their cosine negatives have more; 0 is none.", at_least(0)),
          field("guide", &C::guide,
                "Of gist: the folder of an embedding model of the same tokenizer, which says what is no negative."),
          field("margin_strategy", &C::margin_strategy,
                "Of gist: whether margin is taken off the guide's cosine of query and document (absolute), or that "
                "share of it (relative)."),
          field("contrast_anchors", &C::contrast_anchors, "Of gist: queries are each other's negatives, too."),
          field("contrast_positives", &C::contrast_positives, "Of gist: so are documents."),
          field(
              "pooling", &C::pooling,
              "What stands for a text: the mean of its tokens' states, the first's (cls) or the last's; default: what "
              "the model's folder says (1_Pooling), else last of a language model and mean of others."),
          field("normalize", &C::normalize,
                "Vectors have length 1; default: what the model's folder says (2_Normalize), true without one.")},
          prompt_fields<C>(),
          std::tuple{
          field(
              "matryoshka_dims", &C::matryoshka_dims,
              "The loss is also that of the first so many numbers of the vectors, for each of these; the whole vector "
              "is learnt where its size is among them. Default: the whole vector alone."),
          field("matryoshka_weights", &C::matryoshka_weights, "Of these losses, as many; default: 1 of each.")});
    }
    void validate(Problems& problems) const {
      check_losses(problems);
      problems.require(std::set(matryoshka_dims.begin(), matryoshka_dims.end()).size() == matryoshka_dims.size(),
                       "matryoshka_dims", "got one of them twice, expected each once");
      for (const std::int64_t dims : matryoshka_dims)
        problems.require(dims >= 1, "matryoshka_dims", fmt::format("got {}, expected at least 1", dims));
      problems.require(matryoshka_weights.empty() || matryoshka_weights.size() == matryoshka_dims.size(),
                       "matryoshka_weights",
                       fmt::format("got {} for {} matryoshka_dims; expected as many", matryoshka_weights.size(),
                                   matryoshka_dims.size()));
    }

   private:
    void check_losses(Problems& problems) const {
      const Config usual;
      const bool is_gist = loss_type == EmbeddingLoss::gist;
      const bool is_far = loss_type == EmbeddingLoss::triplet || learns_labels(loss_type);
      const auto only = [&](bool holds, bool is_usual, const char* option, const char* types) {
        problems.require(holds || is_usual, option, fmt::format("only with loss_type {}", types));
      };
      only(has_margin(loss_type) || is_gist, !margin, "margin",
           "triplet, gist, batch_all_triplet, batch_hard_triplet or batch_semi_hard_triplet");
      only(is_far, distance == usual.distance, "distance", "triplet or the batch_ losses");
      only(has_temperature(loss_type), !temperature, "temperature",
           "multiple_negatives_ranking, gist, cosent, angle or distill_kl_div");
      only(loss_type == EmbeddingLoss::distill_kl_div, !teacher_temperature, "teacher_temperature", "distill_kl_div");
      only(is_gist, margin_strategy == usual.margin_strategy, "margin_strategy", "gist");
      only(is_gist, contrast_anchors, "contrast_anchors", "gist");
      only(is_gist, contrast_positives, "contrast_positives", "gist");
      only(is_gist, guide.empty(), "guide", "gist");
      problems.require(!is_gist || !guide.empty(), "guide", "loss_type gist asks a guide; expected a model's folder");
      check_ranking(loss_type, {directions, partition_mode, hardness_mode, hardness_strength}, problems);
    }
  };
  explicit Embedding(Config config) : config_(std::move(config)) {}

  Needs needs() const override {
    Needs needs{.records = RecordKind::embedding};
    needs.compares_records = compares_pairs(config_.loss_type);
    needs.texts_alone = learns_labels(config_.loss_type);
    needs.query_prompt = config_.query_prompt.value_or("");
    needs.document_prompt = config_.document_prompt.value_or("");
    if (!config_.guide.empty()) needs.models[kGuide] = config_.guide, needs.models_read_same_tokens = true;
    return needs;
  }
  void check(const Model& model) const override {
    if (!config_.guide.empty()) Guide::check(config_.guide);
    const std::int64_t width = nn::embedding_width(model);
    for (const std::int64_t dims : config_.matryoshka_dims)
      if (dims > width)
        throw Error(ErrorKind::config, fmt::format("objective.matryoshka_dims: got {}, expected at most {}, the size "
                                                   "of the model's vectors",
                                                   dims, width));
  }
  std::optional<std::vector<std::string>> measures() const override {
    return learns_scores(config_.loss_type) ? std::vector<std::string>{} : std::vector<std::string>{"accuracy"};
  }
  std::vector<std::shared_ptr<const Evaluation>> further_evaluations() const override {
    return {make_neighbours(config_.pooling, neighbours_of(config_.loss_type))};
  }
  std::map<std::string, std::string> folder_files(const Model& model, std::int64_t max_length) const override {
    hub::SentenceFolder folder;
    folder.pooling = pooling_of(model);
    folder.normalize = normalizes();
    folder.max_length = max_length;
    folder.prompts = {{"document", config_.document_prompt.value_or("")}, {"query", config_.query_prompt.value_or("")}};
    for (const nn::NamedVectorModule& one : nn::vector_modules(model))
      folder.modules.push_back({one.name, one.module->form()});
    return hub::sentence_files(folder, nn::pooled_width(model));
  }

  Groups prepare(Group group, StepContext& context) override {
    if (!config_.guide.empty()) guide(context.resources).add_to(group, context.world);
    return TextObjective::prepare(std::move(group), context);
  }
  // Of held-out data: prepare() has them of a step, whose texts are all compared.
  std::map<std::string, Tensor> document_numbers(const Batch& batch, const Resources& resources) const override {
    if (config_.guide.empty() || batch.extra.contains(kGuided)) return {};
    return {{kGuided, guide(resources).vectors(batch)}};
  }

 private:
  EmbeddingLoss loss_type() const override { return config_.loss_type; }
  bool normalizes() const { return config_.normalize.value_or(true); }
  nn::Pooling pooling_of(const Model& model) const { return config_.pooling.value_or(nn::usual_pooling(model)); }
  Guide guide(const Resources& resources) const { return {config_.guide, resources.model(kGuide)}; }
  EmbeddingLossSettings settings() const {
    const bool is_gist = config_.loss_type == EmbeddingLoss::gist;
    EmbeddingLossSettings settings;
    settings.type = config_.loss_type;
    const bool of_teacher = config_.loss_type == EmbeddingLoss::distill_kl_div;
    settings.temperature = config_.temperature.value_or(is_gist      ? kGuidedTemperature
                                                        : of_teacher ? kTaughtTemperature
                                                                     : kTemperature);
    settings.teacher_temperature = config_.teacher_temperature.value_or(settings.temperature);
    settings.margin = config_.margin.value_or(is_gist ? 0 : kMargin);
    settings.distance = config_.distance, settings.unit_length = normalizes();
    settings.directions = config_.directions, settings.partition_mode = config_.partition_mode;
    settings.hardness_mode = config_.hardness_mode, settings.hardness_strength = config_.hardness_strength;
    settings.margin_strategy = config_.margin_strategy;
    settings.contrast_anchors = config_.contrast_anchors, settings.contrast_positives = config_.contrast_positives;
    return settings;
  }

  Tensor vectors(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    return nn::vectors_of(model, output, batch, pooling_of(model), pass);
  }
  TextLosses losses(const EmbeddedTexts& texts, const Model&) const override {
    TextLosses made{all_losses(texts)};
    const c10::NoGradGuard no_grad;
    if (const Tensor right = right_ones(texts, settings()); right.defined()) made.means["accuracy"] = right;
    return made;
  }

  // Of all sizes that are learnt.
  Tensor all_losses(const EmbeddedTexts& texts) const {
    if (config_.matryoshka_dims.empty()) return losses_of(texts, settings(), 0);
    Tensor all;
    for (std::size_t i = 0; i < config_.matryoshka_dims.size(); ++i) {
      const double weight = config_.matryoshka_weights.empty() ? 1 : config_.matryoshka_weights[i];
      const Tensor one = weight * losses_of(texts, settings(), config_.matryoshka_dims[i]);
      all = all.defined() ? all + one : one;
    }
    return all;
  }

  Config config_;
};

}  // namespace

void register_embedding(Registries& hone) {
  hone.objectives.add<Embedding>("embedding", "Texts become vectors, near those of what they are like.");
}

}  // namespace hone::objectives
