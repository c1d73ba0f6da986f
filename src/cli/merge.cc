// hone merge: a model and its adapter as one model.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "base/strings.h"
#include "cli/model_place.h"
#include "cli/output.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "hub/save.h"
#include "io/folder_commit.h"

namespace hone::cli {
namespace {

class Merge final : public Command {
 public:
  struct Config {
    std::string adapter, out;
    bool replace = false;
    std::optional<Precision> precision;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("adapter", &C::adapter,
                "Folder of the adapter, of PEFT or of a run; a run that trained one names its model itself."),
          field("out", &C::out, "Folder to make: a model as any other, without an adapter."),
          field("replace", &C::replace,
                "A folder there that hone made, with nothing else in it, is moved to <folder>.old-k first."),
          field("precision", &C::precision,
                "Type of the weights that are written; sums are made in fp32 and rounded once. Default: as the model "
                "is stored, and fp32 where that is fp16.")};
    }
  };
  explicit Merge(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL --out FOLDER",
            {"hone merge runs/lora --out merged", "hone merge my-model --adapter my-adapter --out merged"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    if (flags_.out.empty()) throw Error(ErrorKind::usage, "--out: missing; expected a folder to make");
    io::require_free(flags_.out, flags_.replace);  // before the work, not after
    const ModelPlace place = model_place_to_merge(call.positionals[0], flags_.adapter);
    if (place.adapter.empty())
      throw Error(ErrorKind::usage, call.positionals[0] + ": a model without an adapter; --adapter names one");
    const auto model = merged_model(place, flags_.precision);
    const hub::ModelFiles files = merged_files(place, *model);
    const StopSignal signals;
    hub::save_model_folder(flags_.out, *model, files, {flags_.replace});
    report(place, model->parameter_count(), call.json);
    return 0;
  }

 private:
  void report(const ModelPlace& place, std::int64_t parameters, bool json) const {
    if (json)
      return write_json({{"folder", flags_.out},
                         {"model", place.folder.string()},
                         {"adapter", place.adapter.string()},
                         {"parameters", parameters}});
    std::cout << fmt::format("{}: {} with {}, {} parameters\n", flags_.out, place.folder.string(),
                             place.adapter.string(), human_count(static_cast<double>(parameters)));
  }

  Config flags_;
};

}  // namespace

void register_merge(Registries& hone) {
  hone.commands.add<Merge>("merge", "Make one model of a model and its adapter.");
}

}  // namespace hone::cli
