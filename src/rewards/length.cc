// Soft overlong punishment (DAPO: Yu et al., 2025, arXiv:2503.14476, equation 13): answers that come near the longest
// that they may be lose up to 1.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/error.h"
#include "hone/registry.h"
#include "hone/reward.h"

namespace hone::rewards {
namespace {

class Length final : public Reward {
 public:
  struct Config {
    std::optional<std::int64_t> max_completion_len, soft_punish_cache;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("max_completion_len", &C::max_completion_len,
                "Tokens of an answer beyond which it costs 1; default: the most that answers of this run may have.",
                at_least(1)),
          field("soft_punish_cache", &C::soft_punish_cache,
                "Tokens before max_completion_len over which the cost rises from 0 to 1; 0 = nothing before it. "
                "Default: a fifth of it, as in DAPO.",
                at_least(0))};
    }
  };
  explicit Length(const Config& config) : config_(config) {}

  void check(std::int64_t longest) const override {
    const std::int64_t most = most_of(longest), cache = cache_of(longest);
    if (cache > most)
      throw Error(ErrorKind::config, fmt::format("reward length: soft_punish_cache: got {}, expected at most {}, the "
                                                 "tokens of max_completion_len",
                                                 cache, most));
    if (most - cache >= longest)
      throw Error(ErrorKind::config,
                  fmt::format("reward length: it would cost nothing: answers have at most {} tokens; got {} without "
                              "cost (max_completion_len - soft_punish_cache)",
                              longest, most - cache))
          .hint("without max_completion_len it is the most that answers may have");
  }

  std::vector<std::optional<double>> score(const std::vector<Answer>& answers,
                                           const RewardContext& context) const override {
    const std::int64_t most = most_of(context.longest), cache = cache_of(context.longest);
    std::vector<std::optional<double>> scores;
    for (const Answer& answer : answers) {
      const auto length = static_cast<std::int64_t>(answer.ids.size());
      const std::int64_t beyond = length - (most - cache);
      double score = 0;
      if (length > most) score = -1;
      else if (beyond > 0) score = -static_cast<double>(beyond) / static_cast<double>(cache);
      scores.push_back(score);
    }
    return scores;
  }

 private:
  std::int64_t most_of(std::int64_t longest) const { return config_.max_completion_len.value_or(longest); }
  std::int64_t cache_of(std::int64_t longest) const {
    return config_.soft_punish_cache.value_or((most_of(longest) + 4) / 5);
  }
  Config config_;
};

}  // namespace

void register_length(Registries& hone) {
  hone.rewards.add<Length>("length", "0, and down to -1 for answers that come near the longest that they may be.");
}

}  // namespace hone::rewards
