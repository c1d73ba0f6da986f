// A data source: sums to learn from, made without a file (arithmetic).
#include <string>

#include "hone/config_read.h"
#include "hone/data.h"
#include "hone/random.h"
#include "hone/registry.h"

namespace {

using namespace hone;

class Sums final : public Source {
 public:
  struct Config {
    std::uint64_t below = 100, seed = 1;
    static constexpr auto fields() {
      return std::tuple{field("below", &Config::below, "Terms are smaller than this.", at_least(1)),
                        field("seed", &Config::seed, "Other sums.")};
    }
  };
  explicit Sums(const Config& config) : config_(config), random_(config.seed, "sums") {}

  // Never false: there is always one more. A record is a function of the options and its number.
  bool next(Record& record) override {
    const std::uint64_t a = random_.below(config_.below, 2 * made_), b = random_.below(config_.below, 2 * made_ + 1);
    record = Record();
    record.content = PromptRecord{std::to_string(a) + " + " + std::to_string(b) + " = ", std::to_string(a + b)};
    record.line = std::int64_t(++made_);
    return true;
  }

  // So that a run that is resumed need not make again what it has had.
  std::optional<SourcePlace> place() const override { return SourcePlace{std::int64_t(made_), made_}; }
  void seek(const SourcePlace& place) override { made_ = place.offset; }

 private:
  Config config_;
  Random random_;
  std::uint64_t made_ = 0;
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.sources.add<Sums>("sums", "Endless sums of two numbers, as prompts with completions.");
}
