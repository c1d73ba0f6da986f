// Choosing what is put on a grid.
#include "cli/export_grid.h"

#include <fmt/format.h>

#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/grid_files.h"
#include "hub/memory.h"
#include "hub/model_tensors.h"
#include "hub/packed/find_packed.h"
#include "hub/quantized_files.h"
#include "hub/tensor_names.h"
#include "hub/tied_head.h"
#include "nn/fake_quantize.h"

namespace hone::cli {
namespace {

std::string text_of(const FakeQuantized& grids) {
  std::string text = hub::name_of(grids);
  if (grids.input != Grid::none) text += ", inputs in " + config::Values<Grid>::write(grids.input).text();
  return text;
}

// As the run's recipe says where it has the same; another grid is not what it was trained for.
FakeQuantized grids_of(const ExportSource& source, const ExportGrid& how) {
  const QatSection trained = source.facts.recipe ? source.facts.recipe->trainer.qat : QatSection();
  QatSection wanted;
  wanted.weight_dtype = how.type, wanted.activation_dtype = how.activation_dtype;
  wanted.group_size = how.group_size.value_or(trained.on() ? trained.group_size : wanted.group_size);
  if (how.type == Grid::float8) wanted.group_size = how.group_size.value_or(QatSection().group_size);
  if (trained.on() && how.activation_dtype == Grid::none) wanted.activation_dtype = trained.activation_dtype;
  Problems problems;
  wanted.validate(problems);
  problems.raise("--grid", ErrorKind::usage);
  if (trained.on() && trained.grids() != wanted.grids())
    throw Error(ErrorKind::usage, fmt::format("--grid: got {}; the run was trained for {}", text_of(wanted.grids()),
                                              text_of(trained.grids())))
        .hint("its checkpoint, exported as it is, can be put on any grid, but was not trained for that one");
  return wanted.grids();
}

}  // namespace

OnGrids put_on_grids(const ExportSource& source, const ExportGrid& how) {
  if (!how.on()) {
    if (how.activation_dtype != Grid::none || how.group_size)
      throw Error(ErrorKind::usage, "--grid.type: missing: int4, int8 or float8");
    return {};
  }
  if (hub::holds_quantized(source.folder) || hub::holds_packed(source.folder))
    throw Error(ErrorKind::config, source.folder.string() + ": its weights are quantized already")
        .hint("--quantization none makes a folder of what they stand for, which can then be put on a grid");
  OnGrids made{grids_of(source, how)};
  if (source.facts.recipe && source.facts.recipe->trainer.qat.on())
    made.type = hub::type_of(source.facts.recipe->trainer.precision);
  const std::string file = (source.folder / "config.json").string();
  const std::unique_ptr<Model> model = build_model(config::read_file(file), file);
  during("choosing what --grid is of", [&] { nn::fake_quantize(*model, made.grids); });
  const hub::ModelTensors tensors(source.folder);
  const hub::TensorNames names(*model, tensors.all(), FreshWeights{.any = true});
  model->each_weight([&](const std::string& name, const Weight& weight) {
    if (weight.fake_quantized().weight == Grid::none) return;
    if (const auto* tensor = names.of(name)) made.tensors[tensor->second.tensor->name] = weight.fake_quantized();
  });
  if (model->causal_lm()) made.ignored.push_back(hub::kHeadModule);
  constexpr std::string_view kWeight = ".weight";
  const SafetensorsSet files(source.folder);
  for (const auto& [name, place] : files.tensors())
    if (name.ends_with(kWeight) && place.tensor->shape.size() == 2 && !made.tensors.contains(name) &&
        name != hub::kHead)
      made.ignored.push_back(name.substr(0, name.size() - kWeight.size()));
  return made;
}

}  // namespace hone::cli
