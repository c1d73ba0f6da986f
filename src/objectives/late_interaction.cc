// Late interaction: texts become vectors of their tokens, and each of a query's is compared with all of a document's
// (ColBERT: Khattab and Zaharia, 2020, arXiv:2004.12832; ColBERTv2: Santhanam et al., 2022, arXiv:2112.01488).
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "hub/sentence_files.h"
#include "nn/text_embedding.h"
#include "nn/token_vectors.h"
#include "nn/vector_module.h"
#include "objectives/embedding_losses.h"
#include "objectives/late_losses.h"
#include "objectives/late_neighbours.h"
#include "objectives/ranking_options.h"
#include "objectives/text_objective.h"

namespace hone {
namespace objectives {
namespace {
enum class LateLoss { multiple_negatives_ranking, distill_kl_div, margin_mse };
enum class QueryExpansion { none, fixed, min };
enum class Task { query, document };
}  // namespace
}  // namespace objectives

template <>
inline constexpr auto config::enum_names<objectives::LateLoss> =
    std::to_array<std::pair<objectives::LateLoss, std::string_view>>(
        {{objectives::LateLoss::multiple_negatives_ranking, "multiple_negatives_ranking"},
         {objectives::LateLoss::distill_kl_div, "distill_kl_div"},
         {objectives::LateLoss::margin_mse, "margin_mse"}});
template <>
inline constexpr auto config::enum_names<objectives::QueryExpansion> =
    std::to_array<std::pair<objectives::QueryExpansion, std::string_view>>(
        {{objectives::QueryExpansion::none, "none"},
         {objectives::QueryExpansion::fixed, "fixed"},
         {objectives::QueryExpansion::min, "min"}});
template <>
inline constexpr auto config::enum_names<objectives::Task> =
    std::to_array<std::pair<objectives::Task, std::string_view>>(
        {{objectives::Task::query, "query"}, {objectives::Task::document, "document"}});

namespace objectives {
namespace {

constexpr std::int64_t kTokenDimension = 128, kUsualExpansion = 32;

EmbeddingLoss embedding_loss_of(LateLoss type) {
  if (type == LateLoss::margin_mse) return EmbeddingLoss::margin_mse;
  return type == LateLoss::distill_kl_div ? EmbeddingLoss::distill_kl_div : EmbeddingLoss::multiple_negatives_ranking;
}

class LateInteraction final : public TextObjective {
 public:
  struct Config {
    LateLoss loss_type = LateLoss::multiple_negatives_ranking;
    double temperature = 1;
    std::optional<double> teacher_temperature;
    std::optional<nn::TokenSimilarity> similarity_fn_name;
    std::optional<std::int64_t> embedding_dimension;
    std::optional<bool> normalize;
    std::optional<std::int64_t> query_length, document_length;
    std::optional<QueryExpansion> query_expansion;
    std::optional<std::int64_t> query_expansion_length;
    std::optional<bool> query_expansion_attend;
    std::optional<std::string> query_expansion_token;
    std::optional<std::vector<std::string>> skiplist_words;
    std::optional<std::vector<Task>> skiplist_tasks;
    std::optional<std::string> query_prompt, document_prompt;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          std::tuple{
          field("loss_type", &C::loss_type,
                "multiple_negatives_ranking: a query is to be more alike to its own document than to all others of the "
                "step (InfoNCE); distill_kl_div, margin_mse: of queries whose texts have scores of a teacher, whose "
                "likelihoods or margins theirs are to have."),
          field("temperature", &C::temperature,
                "Of multiple_negatives_ranking and distill_kl_div: how alike texts are is divided by it "
                "(sentence-transformers' scale is 1 / temperature); with meanmaxsim about 1 / tokens of a query is "
                "usual.",
                {.low = 1e-6}),
          field("teacher_temperature", &C::teacher_temperature, kTeacherTemperature, {.low = 1e-6}),
          field("similarity_fn_name", &C::similarity_fn_name,
                "How alike a query and a document are: of each of the query's vectors the largest dot product with "
                "one of the document's, and of these the sum (maxsim) or the mean (meanmaxsim); default: as the "
                "model's folder says, else maxsim."),
          field("embedding_dimension", &C::embedding_dimension,
                "Numbers of a token's vector, which a projection without a bias makes; default: as the folder's "
                "(1_Dense) does, else 128.",
                at_least(1)),
          field("normalize", &C::normalize,
                "Vectors have length 1; default: what the folder says (Normalize), true without one."),
          field("query_length", &C::query_length,
                "Most tokens of a query; default: as the folder says, else data.max_length.", at_least(1)),
          field("document_length", &C::document_length,
                "Most tokens of a document; default: as the folder says, else data.max_length.", at_least(1)),
          field("query_expansion", &C::query_expansion,
                "Whether queries of few tokens go on with mask tokens, whose vectors count: none; fixed: all have "
                "query_expansion_length tokens, and longer ones are cut; min: so many at least; default: as the "
                "folder says, else none."),
          field("query_expansion_length", &C::query_expansion_length,
                "Of query_expansion: tokens of a query; default: as the folder says, else 32.", at_least(1)),
          field("query_expansion_attend", &C::query_expansion_attend,
                "Of query_expansion: other tokens see the mask tokens, and these each other; default: as the folder "
                "says, else false."),
          field("query_expansion_token", &C::query_expansion_token,
                "Of query_expansion: which token it is; default: as the folder says, else the tokenizer's mask token, "
                "else its end of a text."),
          field("skiplist_words", &C::skiplist_words,
                "Tokens of the vocabulary whose vectors do not count, as punctuation; what is none is passed over; "
                "default: as the folder says, else none."),
          field("skiplist_tasks", &C::skiplist_tasks,
                "In which texts they do not count: document, query; default: as the folder says, else document.")},
          prompt_fields<C>());
    }
    void validate(Problems& problems) const {
      const bool expands = query_expansion.value_or(QueryExpansion::none) != QueryExpansion::none;
      const auto only = [&](bool holds, const char* option, const char* with) {
        problems.require(holds, option, fmt::format("only with {}", with));
      };
      only(loss_type != LateLoss::margin_mse || temperature == 1, "temperature",
           "loss_type multiple_negatives_ranking or distill_kl_div");
      only(loss_type == LateLoss::distill_kl_div || !teacher_temperature, "teacher_temperature",
           "loss_type distill_kl_div");
      constexpr const char* kExpansion = "query_expansion fixed or min";
      only(expands || !query_expansion_length, "query_expansion_length", kExpansion);
      only(expands || !query_expansion_attend, "query_expansion_attend", kExpansion);
      only(expands || !query_expansion_token, "query_expansion_token", kExpansion);
      only(query_expansion != QueryExpansion::fixed || !query_length, "query_length",
           "query_expansion none or min: fixed says it by query_expansion_length");
      problems.require(!skiplist_tasks || !skiplist_tasks->empty(), "skiplist_tasks",
                       "got none of them, expected document or query; no skiplist_words skip nothing");
    }
  };
  explicit LateInteraction(Config config) : config_(std::move(config)) {}

  Needs needs() const override {
    Needs needs{.records = RecordKind::embedding};
    needs.compares_records = compares_pairs(loss_type());
    needs.query_prompt = config_.query_prompt.value_or("");
    needs.document_prompt = config_.document_prompt.value_or("");
    needs.token_vectors = options();
    return needs;
  }
  void check(const Model& model) const override {
    const TokenVectorOptions how = options();
    if (how.expansion_length > 0 && !how.attend && model.causal_lm())
      throw Error(ErrorKind::config, "objective.query_expansion: a language model's tokens see those before them; "
                                     "expected query_expansion_attend: true, or query_expansion: none");
    const std::int64_t width = nn::token_vector_width(model);
    if (config_.embedding_dimension.value_or(width) != width)
      throw Error(ErrorKind::config, fmt::format("objective.embedding_dimension: got {}, expected {}, of the model's "
                                                 "folder",
                                                 *config_.embedding_dimension, width));
  }
  std::vector<std::shared_ptr<const Evaluation>> further_evaluations() const override {
    return {make_late_neighbours(normalizes(), similarity())};
  }
  std::optional<std::vector<std::string>> measures() const override { return std::vector<std::string>{"accuracy"}; }
  std::map<std::string, std::string> folder_files(const Model& model, std::int64_t max_length) const override {
    hub::SentenceFolder folder;
    folder.token_vectors = options();
    folder.normalize = normalizes();
    folder.similarity = config::Values<nn::TokenSimilarity>::write(similarity()).text();
    folder.max_length = max_length;
    folder.prompts = {{"document", config_.document_prompt.value_or("")}, {"query", config_.query_prompt.value_or("")}};
    for (const nn::NamedVectorModule& one : nn::vector_modules(model))
      folder.modules.push_back({one.name, one.module->form()});
    return hub::sentence_files(folder, nn::pooled_width(model));
  }

 private:
  EmbeddingLoss loss_type() const override { return embedding_loss_of(config_.loss_type); }
  bool normalizes() const { return config_.normalize.value_or(true); }
  nn::TokenSimilarity similarity() const { return config_.similarity_fn_name.value_or(nn::TokenSimilarity::maxsim); }

  TokenVectorOptions options() const {
    TokenVectorOptions made;
    made.dimension = config_.embedding_dimension.value_or(kTokenDimension);
    made.query_length = config_.query_length.value_or(0), made.document_length = config_.document_length.value_or(0);
    const QueryExpansion expansion = config_.query_expansion.value_or(QueryExpansion::none);
    if (expansion != QueryExpansion::none) {
      made.expansion_length = config_.query_expansion_length.value_or(kUsualExpansion);
      made.cuts_queries = expansion == QueryExpansion::fixed;
      made.attend = config_.query_expansion_attend.value_or(false);
      made.expansion_token = config_.query_expansion_token.value_or("");
    }
    made.skiplist_words = config_.skiplist_words.value_or(std::vector<std::string>{});
    if (!config_.skiplist_tasks) return made;
    const auto has = [&](Task task) { return std::ranges::count(*config_.skiplist_tasks, task) > 0; };
    made.skips_in_queries = has(Task::query), made.skips_in_documents = has(Task::document);
    return made;
  }

  Tensor vectors(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    return nn::rows_of(nn::token_vectors(model, output, batch, normalizes(), pass));
  }
  TextLosses losses(const EmbeddedTexts& texts, const Model& model) const override {
    LateLossSettings settings;
    settings.type = loss_type();
    settings.temperature = config_.temperature;
    settings.teacher_temperature = config_.teacher_temperature.value_or(config_.temperature);
    settings.similarity = similarity();
    settings.width = nn::token_vector_width(model);
    const LateLosses made = late_losses(texts, settings);
    return {made.loss, {{"accuracy", made.right}}};
  }

  Config config_;
};

}  // namespace

void register_late_interaction(Registries& hone) {
  hone.objectives.add<LateInteraction>(
      "late_interaction", "Texts become vectors of their tokens, which are compared one by one (ColBERT).");
}

}  // namespace objectives
}  // namespace hone
