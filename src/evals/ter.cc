// TER of written answers, over all of a set.
#include <fmt/format.h>

#include "evals/ter_score.h"
#include "evals/written.h"
#include "hone/registry.h"

namespace hone::evals {
namespace {

struct TerConfig : WritingSection {
  using Base = WritingSection;
  bool normalized = false, no_punct = false, case_sensitive = false;
  static constexpr auto fields() {
    using C = TerConfig;
    return std::tuple_cat(
        std::tuple{field("normalized", &C::normalized, "Marks are words of their own, as in languages like English."),
                   field("no_punct", &C::no_punct, "Without marks such as points and commas."),
                   field("case_sensitive", &C::case_sensitive, "Upper and lower case differ.")},
        Base::fields());
  }
};

class Ter final : public WrittenAnswers {
 public:
  using Config = TerConfig;
  explicit Ter(const Config& config)
      : WrittenAnswers("ter", config), options_{config.normalized, config.no_punct, config.case_sensitive} {}

  bool greater_is_better(const std::string& name) const override {
    return name != "ter" && WrittenAnswers::greater_is_better(name);
  }
  // In sacrebleu's words.
  std::string signature() const override {
    return fmt::format("case:{}|tok:tercom|norm:{}|punct:{}|asian:no", options_.case_sensitive ? "mixed" : "lc",
                       options_.normalized ? "yes" : "no", options_.no_punct ? "no" : "yes");
  }

 private:
  void add(const WrittenAnswer& answer, Sums& sums) const override {
    const TerCounts counts = ter_counts(answer.text, answer.references, options_);
    sums["edits"] += counts.edits, sums["reference"] += counts.reference;
  }
  std::vector<std::string> own_names() const override { return {"ter"}; }
  Metrics own_result(const Sums& total, double) const override {
    return {{"ter", ter_score({total.at("edits"), total.at("reference")})}};
  }

  const TerOptions options_;
};

}  // namespace

void register_ter(Registries& hone) {
  hone.evals.add<Ter>("ter", "Translation edit rate of answers that the model writes; less is better.");
}

}  // namespace hone::evals
