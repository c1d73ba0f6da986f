// Writes what `hone export` makes: whole or not at all, and looked at before it is there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/export_grid.h"
#include "cli/export_source.h"
#include "hone/quantization.h"

namespace hone::cli {

enum class ExportDtype { source, fp32, bf16, fp16 };

}  // namespace hone::cli

template <>
inline constexpr auto hone::config::enum_names<hone::cli::ExportDtype> =
    std::to_array<std::pair<hone::cli::ExportDtype, std::string_view>>({{hone::cli::ExportDtype::source, "source"},
                                                                        {hone::cli::ExportDtype::fp32, "fp32"},
                                                                        {hone::cli::ExportDtype::bf16, "bf16"},
                                                                        {hone::cli::ExportDtype::fp16, "fp16"}});

namespace hone::cli {

struct ExportHow {
  std::filesystem::path out;
  bool replace = false, merge = false;
  ExportDtype dtype = ExportDtype::source;
  std::uint64_t max_shard_bytes = 5'000'000'000;
  Quantization quantization = {};
  ExportGrid grid = {};
};
struct ExportedFile {
  std::string name;
  std::uint64_t bytes = 0;
};
struct Exported {
  std::vector<ExportedFile> files;
  CardFacts facts;  // with what was written
};
// Error(usage): there is nothing to merge. Error(checkpoint): what was written does not read as it should.
Exported write_export(const ExportSource& source, const ExportHow& how, const CardFlags& flags);

}  // namespace hone::cli
