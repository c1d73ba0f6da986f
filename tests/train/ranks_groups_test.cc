// An objective whose prepare() does not give as many groups on each rank.
#include "hone/config_read.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "train/together.h"

namespace hone {
namespace {

// Rank 0 makes one update of the step, the others `others`.
class Uneven final : public Objective {
 public:
  struct Config {
    std::int64_t others = 1;
    static constexpr auto fields() { return std::tuple{field("others", &Config::others, "Groups.")}; }
  };
  explicit Uneven(const Config& config) : others_(config.others) {}
  std::vector<std::string> evaluations() const override { return {"perplexity"}; }
  Groups prepare(Group group, StepContext& context) override {
    return Groups(context.world.is_first() ? 1 : static_cast<std::size_t>(others_), group);
  }
  Sums sums(const Batch& batch) const override { return {{"targets", static_cast<double>(batch.supervised)}}; }
  LossTerms loss(const Model&, const Output& output, const Batch&, Pass&) const override {
    LossTerms made;
    made.terms.push_back({"loss", output.hidden_BTD.square().sum(), "targets"});
    return made;
  }

 private:
  std::int64_t others_;
};

class UnevenGroups : public test::Together {
 protected:
  static void SetUpTestSuite() {
    if (!registries().objectives.find("uneven")) registries().objectives.add<Uneven>("uneven", "For tests.");
  }
  test::Overrides of(const std::string& others) {
    return {{"objective", "{type: uneven, others: " + others + "}"},
            {"data.eval.held_out", "0"},
            {"trainer.steps", "2"},
            {"run.folder", in("uneven " + others).string()}};
  }
};

TEST_F(UnevenGroups, AreOneErrorThatNamesTheRank) {
  for (const std::string others : {"0", "2"}) {
    SCOPED_TRACE(others);
    const std::string error = fails(2, of(others), ErrorKind::bug);
    EXPECT_NE(error.find("objective uneven: prepare() gives another number of groups on each rank: rank 1 has " +
                         others + ", rank 0 has 1"),
              std::string::npos)
        << error;
  }
}

TEST_F(UnevenGroups, AsManyOnEachAreFine) { EXPECT_EQ(run(2, "even", of("1")).step, 2); }

}  // namespace
}  // namespace hone
