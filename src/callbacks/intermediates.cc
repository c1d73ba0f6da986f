// What layers hand out while they compute, in the run's numbers.
#include "config/patterns.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::callbacks {
namespace {

class Intermediates final : public Callback {
 public:
  struct Config {
    std::string match;
    static constexpr auto fields() {
      return std::tuple{
          field("match", &Config::match,
                "Regular expression of the names, as `layers\\.0\\.output` or `attention`; default: all.")};
    }
    void validate(Problems& problems) const { config::check_patterns({match}, "match", problems); }
  };
  explicit Intermediates(const Config& config) : match_(config.match.empty() ? "." : config.match) {}
  bool sees_gradients() const override { return false; }
  std::string intermediates() const override { return match_; }

 private:
  std::string match_;
};

}  // namespace

void register_intermediates(Registries& hone) {
  hone.callbacks.add<Intermediates>("intermediates", "Mean and size of what layers compute.");
}

}  // namespace hone::callbacks
