// Embedding models: texts become vectors, near those of what they are like or what answers them.
//
// All pairs of a step are compared with each other, whatever its micro-batches and ranks: their vectors are made
// without a graph first, and what the step's loss says of each of them is then learnt micro-batch by micro-batch
// (GradCache: Gao et al., 2021, arXiv:2101.06983). The first numbers of a vector may be made a good vector by
// themselves (Kusupati et al., 2022, arXiv:2205.13147).
//
// Letters: S documents, D numbers of a vector, P pairs.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/spans.h"
#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "hone/world.h"
#include "hub/sentence_files.h"
#include "nn/text_embedding.h"
#include "nn/vector_module.h"
#include "objectives/embedding_losses.h"
#include "objectives/embedding_step.h"
#include "objectives/means.h"
#include "objectives/neighbours.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

// What prepare() leaves of the whole step: of each document the loss's gradient, of each pair (triplet) its loss and
// whether it is right.
constexpr const char *kSlopesOfTexts = "slopes", *kPairLosses = "losses", *kRightOnes = "right";

class Embedding final : public Objective {
 public:
  struct Config {
    EmbeddingLoss loss_type = EmbeddingLoss::multiple_negatives_ranking;
    double temperature = 0.05, margin = 0.2;
    Distance distance = Distance::cosine;
    std::optional<nn::Pooling> pooling;
    std::optional<bool> normalize;
    std::optional<std::string> query_prompt, document_prompt;
    std::vector<std::int64_t> matryoshka_dims;
    std::vector<double> matryoshka_weights;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("loss_type", &C::loss_type,
                "multiple_negatives_ranking: a query's own document is to be nearer than all others of the step "
                "(InfoNCE); triplet: nearer than its negatives, by margin; cosent, cosine_similarity: of pairs with a "
                "score, whose order or values the cosines are to have."),
          field(
              "temperature", &C::temperature,
              "Of multiple_negatives_ranking and cosent: cosines are divided by it (sentence-transformers' scale is 1 "
              "/ temperature); small values let the nearest negatives count alone.",
              {.low = 1e-6}),
          field("margin", &C::margin, "Of triplet: by so much a negative is to be farther away.", at_least(0)),
          field("distance", &C::distance, "Of triplet: what near and far are measured by."),
          field(
              "pooling", &C::pooling,
              "What stands for a text: the mean of its tokens' states, the first's (cls) or the last's; default: what "
              "the model's folder says (1_Pooling), else last of a language model and mean of others."),
          field("normalize", &C::normalize,
                "Vectors have length 1; default: what the model's folder says (2_Normalize), true without one."),
          field("query_prompt", &C::query_prompt,
                "What stands before each query; default: the prompt `query` of the model's folder, else nothing."),
          field("document_prompt", &C::document_prompt,
                "What stands before each document; default: the prompt `document` (or passage) of the folder."),
          field(
              "matryoshka_dims", &C::matryoshka_dims,
              "The loss is also that of the first so many numbers of the vectors, for each of these; the whole vector "
              "is learnt where its size is among them. Default: the whole vector alone."),
          field("matryoshka_weights", &C::matryoshka_weights, "Of these losses, as many; default: 1 of each.")};
    }
    void validate(Problems& problems) const {
      const bool is_triplet = loss_type == EmbeddingLoss::triplet;
      const Config usual;
      problems.require(is_triplet || margin == usual.margin, "margin", "only with loss_type triplet");
      problems.require(is_triplet || distance == usual.distance, "distance", "only with loss_type triplet");
      problems.require(compares_pairs(loss_type) || temperature == usual.temperature, "temperature",
                       "only with loss_type multiple_negatives_ranking or cosent");
      problems.require(std::set(matryoshka_dims.begin(), matryoshka_dims.end()).size() == matryoshka_dims.size(),
                       "matryoshka_dims", "got one of them twice, expected each once");
      for (const std::int64_t dims : matryoshka_dims)
        problems.require(dims >= 1, "matryoshka_dims", fmt::format("got {}, expected at least 1", dims));
      problems.require(matryoshka_weights.empty() || matryoshka_weights.size() == matryoshka_dims.size(),
                       "matryoshka_weights",
                       fmt::format("got {} for {} matryoshka_dims; expected as many", matryoshka_weights.size(),
                                   matryoshka_dims.size()));
    }
  };
  explicit Embedding(Config config) : config_(std::move(config)) {}

  Needs needs() const override {
    Needs needs{.records = RecordKind::embedding};
    needs.compares_records = compares_pairs(config_.loss_type);
    needs.query_prompt = config_.query_prompt.value_or("");
    needs.document_prompt = config_.document_prompt.value_or("");
    return needs;
  }
  void check(const Model& model) const override {
    const std::int64_t width = nn::embedding_width(model);
    for (const std::int64_t dims : config_.matryoshka_dims)
      if (dims > width)
        throw Error(ErrorKind::config, fmt::format("objective.matryoshka_dims: got {}, expected at most {}, the size "
                                                   "of the model's vectors",
                                                   dims, width));
  }
  std::vector<std::string> evaluations() const override { return {}; }
  std::optional<std::vector<std::string>> measures() const override {
    return needs_score() ? std::vector<std::string>{} : std::vector<std::string>{"accuracy"};
  }
  std::vector<std::shared_ptr<const Evaluation>> further_evaluations() const override {
    return {make_neighbours(config_.pooling, needs_score() ? Neighbours::by_score : Neighbours::of_queries)};
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

  Sums sums(const Batch& batch) const override {
    const Role counted = config_.loss_type == EmbeddingLoss::triplet ? Role::rejected : Role::query;
    return {{counted_of(config_.loss_type), static_cast<double>(count_texts(counted, batch))}};
  }

  Groups prepare(Group group, StepContext& context) override {
    for (Batch& batch : group) add_ids(batch, context);
    const bool cut = context.world.size() > 1 || group.size() > 1;
    if (cut && compares_pairs(config_.loss_type)) {
      const spans::Span span("embeddings");
      context.world.at(fmt::format("step {}, embedding all of its texts", context.step + 1));
      add_slopes(group, context);
    }
    return {std::move(group)};
  }
  Batch prepare_evaluation(Batch batch, StepContext& context) override {
    add_ids(batch, context);
    return batch;
  }

  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor vector_SD = nn::vectors_of(model, output, batch, pooling_of(model), pass);
    LossTerms result;
    Tensor sum, right;
    if (batch.extra.contains(kSlopesOfTexts)) {
      const Tensor slope = (vector_SD.to(at::kDouble) * batch.extra.at(kSlopesOfTexts)).sum();
      sum = slope - slope.detach() + batch.extra.at(kPairLosses).sum();  // the value of the one, the slope of the other
      if (batch.extra.contains(kRightOnes)) right = batch.extra.at(kRightOnes);
    } else {
      const EmbeddedTexts texts = compared(texts_of(batch, vector_SD));
      sum = all_losses(texts).sum();
      const c10::NoGradGuard no_grad;
      right = right_ones(texts, settings());
    }
    result.terms.push_back({"loss", sum, counted_of(config_.loss_type)});
    if (right.defined()) add_mean("accuracy", right.to(at::kDouble), result);
    return result;
  }

 private:
  bool needs_score() const {
    return config_.loss_type == EmbeddingLoss::cosent || config_.loss_type == EmbeddingLoss::cosine_similarity;
  }
  bool normalizes() const { return config_.normalize.value_or(true); }
  nn::Pooling pooling_of(const Model& model) const { return config_.pooling.value_or(nn::usual_pooling(model)); }
  EmbeddingLossSettings settings() const {
    return {config_.loss_type, config_.temperature, config_.margin, config_.distance, normalizes()};
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

  // While the batch lies in host memory. Error(data): records that are not of this loss.
  void add_ids(Batch& batch, const StepContext& context) const {
    if (!batch.ids_BT.is_cpu()) return;
    batch.extra[kTextIds] = text_ids(batch);
    const auto scores = batch.extra.find(kScores);
    std::set<std::int32_t> with_others;
    for (const Doc& doc : batch.docs)
      if (doc.role == Role::rejected) with_others.insert(doc.group);
    for (std::size_t i = 0; i < batch.docs.size(); ++i) {
      const Doc& doc = batch.docs[i];
      const bool scored = scores != batch.extra.end() && host::values<double>(scores->second)[2 * i + 1] != 0;
      if (scored && !needs_score())
        refuse(doc, "has a score, which is not learnt",
               "cosent and cosine_similarity learn it; ignore: [score] passes "
               "over it",
               context);
      if (scored && config_.loss_type == EmbeddingLoss::cosine_similarity) check_score(doc, batch, i, context);
      if (!scored && needs_score()) refuse(doc, "has no score", "others learn pairs without one", context);
      if (config_.loss_type == EmbeddingLoss::triplet && !with_others.contains(doc.group))
        refuse(doc, "has no negative", "multiple_negatives_ranking learns pairs without one", context);
    }
  }
  void check_score(const Doc& doc, const Batch& batch, std::size_t i, const StepContext& context) const {
    const double score = host::values<double>(batch.extra.at(kScores))[2 * i];
    if (score < -1 || score > 1)
      refuse(doc, fmt::format("has a score of {}, and cosines are from -1 to 1", score),
             "scale the scores, or learn their order alone, by cosent", context);
  }
  [[noreturn]] void refuse(const Doc& doc, const std::string& fact, const char* advice,
                           const StepContext& context) const {
    const std::string loss = config::Values<EmbeddingLoss>::write(config_.loss_type).text();
    throw Error(ErrorKind::data,
                fmt::format("{}: {}; objective.loss_type is {}", context.record_name(doc.record), fact, loss))
        .hint(advice);
  }

  // Without a graph, as they will be learnt: of the same dropout.
  StepTexts vectors(const Group& group, StepContext& context) const {
    const c10::NoGradGuard no_grad;
    StepTexts all;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const Batch batch = group[i].to(context.model.device());
      Pass pass(batch);
      context.as_learnt(pass, i);
      const Output output = context.model.forward(batch, pass);
      const nn::Pooling pooling = pooling_of(context.model);
      all.add(texts_of(batch, nn::vectors_of(context.model, output, batch, pooling, pass)));
    }
    std::size_t most = group.size();
    for (const std::string& told : context.world.gather(std::to_string(group.size())))
      most = std::max<std::size_t>(most, std::stoul(told));
    for (std::size_t i = group.size(); i < most; ++i)
      if (Residency* residency = context.model.residency()) residency->idle_pass(false);
    return all;
  }

  void add_slopes(Group& group, StepContext& context) const {
    std::int64_t first = 0;
    StepTexts all = gathered(vectors(group, context), context.world, first);
    if (group.empty()) return;
    all.vector_SD = all.vector_SD.to(at::kDouble).detach().set_requires_grad(true);
    const EmbeddedTexts texts = compared(all);
    const Tensor losses = all_losses(texts);
    losses.sum().backward();
    const Tensor slope_SD = all.vector_SD.grad(), right = [&] {
      const c10::NoGradGuard no_grad;
      return right_ones(texts, settings());
    }();
    std::int64_t pair = pairs_before(all.members, first);
    for (Batch& batch : group) {
      const std::int64_t documents = std::ssize(batch.docs), pairs = count_texts(Role::query, batch);
      batch.extra[kSlopesOfTexts] = slope_SD.narrow(0, first, documents).contiguous();
      batch.extra[kPairLosses] = losses.detach().narrow(0, pair, pairs).contiguous();
      if (right.defined()) batch.extra[kRightOnes] = right.narrow(0, pair, pairs).contiguous();
      first += documents, pair += pairs;
    }
  }

  static std::int64_t pairs_before(const std::vector<TextMember>& members, std::int64_t end) {
    return std::count_if(members.begin(), members.begin() + end,
                         [](const TextMember& one) { return one.role == Role::query; });
  }

  Config config_;
};

}  // namespace

void register_embedding(Registries& hone) {
  hone.objectives.add<Embedding>("embedding", "Texts become vectors, near those of what they are like.");
}

}  // namespace hone::objectives
