// What a reward model says of an answer: the score of prompt and answer as one document.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hone/config_read.h"
#include "hone/error.h"
#include "hone/registry.h"
#include "hone/reward.h"
#include "nn/finite.h"
#include "nn/pair_scores.h"
#include "tensor/host.h"

namespace hone::rewards {
namespace {

constexpr const char *kRole = "path", *kWhat = "reward model";  // the option that names it
constexpr std::int32_t kPadding = 0;                            // no document has it, so any id will do

class ModelScore final : public Reward {
 public:
  struct Config {
    std::string path;
    std::int64_t batch_size = 16;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("path", &C::path,
                "Folder of the reward model, as model.path: one with a head of one label, as objective reward makes "
                "them, which reads the same tokens as the model that is trained."),
          field("batch_size", &C::batch_size, "Answers per forward pass.", at_least(1))};
    }
    void validate(Problems& problems) const { problems.require(!path.empty(), "path", "missing"); }
  };
  explicit ModelScore(const Config& config) : config_(config) {}

  std::map<std::string, std::string> models() const override { return {{kRole, config_.path}}; }

  std::vector<std::optional<double>> score(const std::vector<Answer>& answers,
                                           const RewardContext& context) const override {
    const c10::NoGradGuard no_grad;
    const RoleModel judge = context.resources.model(kRole);
    nn::require_score(judge.model, kWhat);
    std::vector<std::optional<double>> scores;
    std::vector<HostRow> rows;
    for (const Answer& answer : answers) {
      rows.push_back({document_of(answer, judge.model)});
      if (std::ssize(rows) < config_.batch_size && rows.size() + scores.size() < answers.size()) continue;
      add_scores(rows, judge, scores);
      rows.clear();
    }
    return scores;
  }

 private:
  static HostDoc document_of(const Answer& answer, const Model& model) {
    HostDoc doc;
    doc.ids.assign(answer.prompt_ids.begin(), answer.prompt_ids.end());
    doc.ids.insert(doc.ids.end(), answer.ids.begin(), answer.ids.end());
    if (doc.ids.empty()) throw Error(ErrorKind::data, answer.record + ": nothing to score; got no tokens");
    const std::int64_t highest = *std::max_element(doc.ids.begin(), doc.ids.end());
    if (highest >= model.vocab_size())
      throw Error(ErrorKind::config, fmt::format("{}: token id {}; expected less than its vocabulary of {}", kWhat,
                                                 highest, model.vocab_size()))
          .hint("it must have the tokenizer of the model that is trained");
    model.check_length(std::ssize(doc.ids), std::string(kWhat) + ": tokens of a prompt and its answer");
    doc.targets.assign(doc.ids.size(), -100);
    return doc;
  }

  static void add_scores(const std::vector<HostRow>& rows, const RoleModel& judge,
                         std::vector<std::optional<double>>& scores) {
    const Batch batch = to_batch(pad(rows, kPadding)).to(judge.model.device());
    Pass pass(batch);
    pass.adapter = judge.adapter;
    const Tensor score_S1 = judge.model.classifier()->logits(judge.model.forward(batch, pass), pass);
    const Tensor read_S1 = host::read(score_S1.to(at::kDouble));
    for (const double score : host::values<double>(read_S1)) {
      if (!std::isfinite(score)) throw nn::not_finite(judge.model, "a score");
      scores.emplace_back(score);
    }
  }
  Config config_;
};

}  // namespace

void register_model(Registries& hone) {
  hone.rewards.add<ModelScore>("model", "The score that a reward model gives prompt and answer.");
}

}  // namespace hone::rewards
