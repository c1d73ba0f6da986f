// Rows as they are.
#include "hone/config_read.h"
#include "hone/data.h"
#include "hone/registry.h"

namespace hone::collators {
namespace {

class Pad final : public Collator {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  Pad(const Config&, const CollatorInfo& info) : pad_id_(info.pad_id) {}
  HostBatch collate(std::vector<HostRow> rows, const Random&) const override { return pad(rows, pad_id_); }

 private:
  std::int32_t pad_id_;
};

}  // namespace

void register_pad(Registries& hone) {
  hone.collators.add<Pad>("pad", "Rows as they are, padded to the longest of them.");
}

}  // namespace hone::collators
