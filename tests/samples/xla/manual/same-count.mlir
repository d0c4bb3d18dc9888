module @jit_count attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func public @main(%arg0: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>}, %arg1: tensor<1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<16x16xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"dp"}, {"tp"}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{"dp"}, {"tp"}]>] manual_axes={"dp", "tp"} (%arg2: tensor<8x4xf32>, %arg3: tensor<1xi32>) {
      %1 = stablehlo.slice %arg3 [0:1] : (tensor<1xi32>) -> tensor<1xi32>
      %2 = stablehlo.reshape %1 : (tensor<1xi32>) -> tensor<i32>
      %c = stablehlo.constant dense<0> : tensor<i32>
      %3:3 = stablehlo.while(%iterArg = %c, %iterArg_0 = %2, %iterArg_1 = %arg2) : tensor<i32>, tensor<i32>, tensor<8x4xf32>
      cond {
        %4 = stablehlo.compare  LT, %iterArg, %iterArg_0,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %c_2 = stablehlo.constant dense<1> : tensor<i32>
        %4 = stablehlo.add %iterArg, %c_2 : tensor<i32>
        %5 = "stablehlo.all_reduce"(%iterArg_1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
          %6 = stablehlo.add %arg4, %arg5 : tensor<f32>
          stablehlo.return %6 : tensor<f32>
        }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
        stablehlo.return %4, %iterArg_0, %5 : tensor<i32>, tensor<i32>, tensor<8x4xf32>
      }
      sdy.return %3#2 : tensor<8x4xf32>
    } : (tensor<16x16xf32>, tensor<1xi32>) -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }
}
