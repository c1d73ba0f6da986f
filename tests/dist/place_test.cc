// The environments of launchers.
#include "dist/place.h"

#include <gtest/gtest.h>

#include <map>

#include "harness/errors.h"

namespace hone::dist {
namespace {

std::optional<Place> of(const std::map<std::string, std::string>& environment) {
  return find_place([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Place, AProcessAloneHasNone) {
  EXPECT_FALSE(of({}));
  EXPECT_FALSE(of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));  // a batch script, not a step
}

TEST(Place, IsReadFromEachLauncher) {
  const auto torchrun = of({{"RANK", "3"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "host"},
                            {"MASTER_PORT", "1234"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  ASSERT_TRUE(torchrun);
  EXPECT_EQ(torchrun->rank, 3);
  EXPECT_EQ(torchrun->size, 8);
  EXPECT_EQ(torchrun->local_rank, 1);
  EXPECT_EQ(torchrun->local_size, 2);
  EXPECT_EQ(torchrun->address, "host");
  EXPECT_EQ(torchrun->port, 1234);
  EXPECT_TRUE(torchrun->store_is_served);
  EXPECT_EQ(torchrun->launcher, "torchrun");
  EXPECT_EQ(torchrun->rank_variable, "RANK");
  const auto mpi = of({{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(mpi);
  EXPECT_EQ(mpi->launcher, "Open MPI");
  EXPECT_EQ(mpi->address, "127.0.0.1");
  EXPECT_FALSE(mpi->store_is_served);
  const auto slurm = of({{"SLURM_PROCID", "5"},
                         {"SLURM_STEP_NUM_TASKS", "8"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_LOCALID", "1"},
                         {"MASTER_ADDR", "n0"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->local_size, 4);
  EXPECT_EQ(slurm->local_rank, 1);
  EXPECT_EQ(slurm->rank_variable, "SLURM_PROCID");
  const auto uneven = of({{"SLURM_PROCID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "3"},
                          {"SLURM_STEP_NUM_NODES", "2"},
                          {"SLURM_LOCALID", "1"},
                          {"MASTER_ADDR", "n0"}});
  EXPECT_EQ(uneven->local_size, 2);
  EXPECT_EQ(uneven->local_rank, 1);
  const auto own = of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"HONE_STORE", "launcher"}});
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->store_is_served);
  EXPECT_EQ(own->launcher, "hone launch");
}

// What the ranks of the attempt before have said in torchrun's store is not taken for that of these.
TEST(Place, AnAttemptOfTorchrunHasKeysOfItsOwn) {
  std::map<std::string, std::string> environment = {
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1234"}, {"TORCHELASTIC_RESTART_COUNT", "0"}};
  const std::string first = of(environment)->job;
  environment["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(of(environment)->job, first);
}

// What hone launch serves has one job, also where torchrun has started it.
TEST(Place, OfHoneLaunchThereIsOneJob) {
  const auto place = of({{"RANK", "0"},
                         {"WORLD_SIZE", "2"},
                         {"MASTER_PORT", "1234"},
                         {"HONE_STORE", "launcher"},
                         {"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_EQ(place->launcher, "hone launch");
  EXPECT_EQ(place->job, "");
}

TEST(Place, WhatContradictsItselfIsRefused) {
  EXPECT_HONE_ERROR(of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", ""}}), config,
                    "MASTER_ADDR: got \"\", expected the name or the address of the machine of rank 0");

  EXPECT_HONE_ERROR(of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), config, "RANK: got 2, expected less than WORLD_SIZE, 2");
  EXPECT_HONE_ERROR(of({{"RANK", "1"}}), config, "WORLD_SIZE: missing");
  EXPECT_HONE_ERROR(of({{"WORLD_SIZE", "2"}}), config, "RANK: missing");
  EXPECT_HONE_ERROR(of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), config, "RANK: got \"x\"");
  EXPECT_HONE_ERROR(of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "99999"}}), config,
                    "MASTER_PORT: got \"99999\", expected a whole number from 1 to 65535");
  EXPECT_HONE_ERROR(of({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}), config,
                    "MASTER_ADDR: missing");
}

}  // namespace
}  // namespace hone::dist
