// That all ranks have the same: what each has read from files, and the weights that each has whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "hone/model.h"
#include "hone/world.h"
#include "train/inputs.h"
#include "train/updater.h"

namespace hone::training {

// What a rank has, by what it is called, as "data.train"; of what is long, a hash.
using Facts = std::map<std::string, std::string>;

// By all ranks. Throws Error(data), the same on each of them, that says what differs, and on which rank.
void check_alike(const World& world, const Facts& own);

Facts facts_of(const Inputs& inputs);  // tokenizer, data and what the model is like, without its weights
// Of what changes in a run and this process has whole: weights, masters, buffers, and with_state the optimizer's state.
std::string hash_of_weights(Model& model, Updater& updater, bool with_state);
// Of a folder's weights, which may take long to read: names and sizes of their files, and a little of each.
std::string sample_of_folder(const std::filesystem::path& folder);
// Of ranks that each have the whole model: that it is the same bits still. Throws Error(bug) on all of them.
void check_replicas(const World& world, Model& model, Updater& updater, std::int64_t step, const std::string& kept);

}  // namespace hone::training
