// BLEU of written answers, over all of a set.
#include <fmt/format.h>

#include "evals/bleu_score.h"
#include "evals/written.h"
#include "hone/registry.h"

namespace hone::evals {
namespace {

struct BleuConfig : WritingSection {
  using Base = WritingSection;
  BleuTokens tokenize = BleuTokens::v13a;
  bool lowercase = false, effective_order = false;
  BleuSmoothing smooth_method = BleuSmoothing::exp;
  std::optional<double> smooth_value;
  static constexpr auto fields() {
    using C = BleuConfig;
    return std::tuple_cat(
        std::tuple{
            field("tokenize", &C::tokenize,
                  "How texts are parted into words: 13a, as WMT does; intl, at every mark and symbol of Unicode; zh, "
                  "for Chinese; char, each character; none, at white space."),
            field("lowercase", &C::lowercase, "Texts are compared in lower case."),
            field("smooth_method", &C::smooth_method,
                  "What counts for n-grams of which no answer has one: exp, a half, then a quarter, and so on; floor, "
                  "smooth_value; add-k, smooth_value more of each; none, nothing."),
            field("smooth_value", &C::smooth_value, "Of floor, 0.1 by default, and of add-k, 1.",
                  config::at_least(0)),
            field("effective_order", &C::effective_order, "N-grams longer than any answer do not count.")},
        Base::fields());
  }
  void validate(Problems& problems) const {
    Base::validate(problems);
    const bool takes_value = smooth_method == BleuSmoothing::floor || smooth_method == BleuSmoothing::add_k;
    problems.require(takes_value || !smooth_value, "smooth_value", "only with smooth_method floor or add-k");
  }
  double value() const { return smooth_value.value_or(smooth_method == BleuSmoothing::floor ? 0.1 : 1); }
};

template <class Enum>
std::string_view name_of(Enum wanted) {
  for (const auto& [value, name] : config::enum_names<Enum>)
    if (value == wanted) return name;
  return "";
}

class Bleu final : public WrittenAnswers {
 public:
  using Config = BleuConfig;
  explicit Bleu(const Config& config) : WrittenAnswers("bleu", config), config_(config) {}

  // In sacrebleu's words.
  std::string signature() const override {
    std::string smooth(name_of(config_.smooth_method));
    if (config_.smooth_method == BleuSmoothing::floor || config_.smooth_method == BleuSmoothing::add_k)
      smooth += fmt::format("[{:.2f}]", config_.value());
    return fmt::format("case:{}|eff:{}|tok:{}|smooth:{}", config_.lowercase ? "lc" : "mixed",
                       config_.effective_order ? "yes" : "no", name_of(config_.tokenize), smooth);
  }

 private:
  static std::string numbered(const char* name, std::size_t n) { return name + std::to_string(n + 1); }

  void add(const WrittenAnswer& answer, Sums& sums) const override {
    const BleuCounts counts = bleu_counts(answer.text, answer.references, config_.tokenize, config_.lowercase);
    for (std::size_t n = 0; n < kBleuOrder; ++n)
      sums[numbered("hits", n)] += counts.hits[n], sums[numbered("all", n)] += counts.all[n];
    sums["answer"] += counts.answer, sums["reference"] += counts.reference;
  }
  std::vector<std::string> own_names() const override {
    std::vector<std::string> names{"bleu"};
    for (std::size_t n = 0; n < kBleuOrder; ++n) names.push_back(numbered("bleu_precision_", n));
    names.insert(names.end(), {"bleu_brevity_penalty", "bleu_length_ratio"});
    return names;
  }
  Metrics own_result(const Sums& total, double) const override {
    BleuCounts counts;
    for (std::size_t n = 0; n < kBleuOrder; ++n)
      counts.hits[n] = total.at(numbered("hits", n)), counts.all[n] = total.at(numbered("all", n));
    counts.answer = total.at("answer"), counts.reference = total.at("reference");
    const BleuScore score =
        bleu_score(counts, config_.smooth_method, config_.value(), config_.effective_order);
    Metrics made{{"bleu", score.score}, {"bleu_brevity_penalty", score.brevity_penalty}};
    for (std::size_t n = 0; n < kBleuOrder; ++n) made[numbered("bleu_precision_", n)] = score.precisions[n];
    made["bleu_length_ratio"] = counts.reference > 0 ? counts.answer / counts.reference : 0;
    return made;
  }

  const Config config_;
};

}  // namespace

void register_bleu(Registries& hone) {
  hone.evals.add<Bleu>("bleu", "BLEU of answers that the model writes, as sacrebleu gives it: for translations.");
}

}  // namespace hone::evals
