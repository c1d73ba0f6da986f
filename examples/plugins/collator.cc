// A collator: some of the tokens that the model reads are others; what it learns stays as it was (token noise).
#include "hone/config_read.h"
#include "hone/data.h"
#include "hone/random.h"
#include "hone/registry.h"

namespace {

using namespace hone;

class Noise final : public Collator {
 public:
  struct Config {
    double share = 0.1;
    static constexpr auto fields() {
      return std::tuple{field("share", &Config::share, "Share of the tokens.", {.low = 0, .high = 1})};
    }
  };
  Noise(const Config& config, const CollatorInfo& info) : share_(config.share), info_(info) {}

  // All chance comes from `random`, which belongs to this batch: a resumed run draws the same.
  HostBatch collate(std::vector<HostRow> rows, const Random& random) const override {
    std::uint64_t place = 0;
    for (HostRow& row : rows)
      for (HostDoc& doc : row)
        for (std::int64_t& id : doc.ids) {
          if (random.uniform(2 * place) < share_)
            id = std::int64_t(random.below(std::uint64_t(info_.vocab_size), 2 * place + 1));
          ++place;
        }
    return pad(rows, info_.pad_id);
  }

 private:
  double share_;
  CollatorInfo info_;
};

}  // namespace

extern "C" HONE_API void hone_register(hone::Registries& hone) {
  hone.collators.add<Noise>("noise", "Replaces a share of the tokens that are read by others.");
}
